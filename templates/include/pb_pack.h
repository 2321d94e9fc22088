/* Packing: b (k, n) into panels of two vectors a row, zero-padded to whole panels; n <= PBP_NARROW into contiguous columns.
 *
 * A template over PBP_REAL, PBP_NAME, PBP_LANES (see pb_product.h).
 */

#define PBP_PANEL (2 * PBP_LANES)                              /* columns of a panel */
#define PBP_PANEL_ROW ((int64_t)PBP_PANEL * (int64_t)sizeof(PBP_REAL)) /* bytes of a panel's row */

/* Bytes from one contiguous column of a narrow pack to the next. */
PBP_INLINE int64_t PBP_NAME(narrow_stride)(int64_t k) {
    return pb_ceil_div(k, PBP_LANES) * PB_VECTOR_BYTES;
}

PBP_FUNCTION int64_t PBP_NAME(pack_bytes)(int64_t k, int64_t n) {
    if (n <= PBP_NARROW) return n * PBP_NAME(narrow_stride)(k);
    return pb_ceil_div(n, PBP_PANEL) * k * PBP_PANEL_ROW;
}

/* Write `cols` columns of k rows as one panel at dst. */
PBP_FUNCTION void PBP_NAME(pack_panel)(int64_t k, int64_t cols, const char *src, int64_t rs, int64_t cs, char *dst) {
    const int64_t size = sizeof(PBP_REAL);
    if (cols == PBP_PANEL && cs == size) {
        for (int64_t i = 0; i < k; i++, src += rs, dst += PBP_PANEL_ROW) {
            const PBP_VEC lo = *(const PBP_MEM *)src, hi = *(const PBP_MEM *)(src + PB_VECTOR_BYTES);
            *(PBP_MEM *)dst = lo;
            *(PBP_MEM *)(dst + PB_VECTOR_BYTES) = hi;
        }
        return;
    }
    for (int64_t i = 0; i < k; i++, src += rs, dst += PBP_PANEL_ROW) {
        PBP_ELEM *d = (PBP_ELEM *)dst;
        int64_t j = 0;
        for (; j < cols; j++) d[j] = *(const PBP_ELEM *)(src + j * cs);
        for (; j < PBP_PANEL; j++) d[j] = 0;
    }
}

PBP_FUNCTION void PBP_NAME(pack)(int64_t k, int64_t n, const char *src, int64_t rs, int64_t cs, char *dst) {
    if (n <= PBP_NARROW) {
        for (int64_t j = 0; j < n; j++, src += cs, dst += PBP_NAME(narrow_stride)(k)) {
            PBP_ELEM *d = (PBP_ELEM *)dst;
            const int64_t padded = PBP_NAME(narrow_stride)(k) / (int64_t)sizeof(PBP_REAL);
            int64_t i = 0;
            for (; i < k; i++) d[i] = *(const PBP_ELEM *)(src + i * rs);
            for (; i < padded; i++) d[i] = 0;
        }
        return;
    }
    for (int64_t j = 0; j < n; j += PBP_PANEL, src += PBP_PANEL * cs, dst += k * PBP_PANEL_ROW)
        PBP_NAME(pack_panel)(k, pb_min_i64(n - j, PBP_PANEL), src, rs, cs, dst);
}
