/* Packing: b (k, n) into panels of two vectors a row, zero-padded to whole panels; n <= PBP_NARROW: into contiguous
 * columns.
 *
 * A template over PBP_REAL, PBP_NAME, PBP_LANES (see pb_product.h).
 */

#define PBP_PANEL (2 * PBP_LANES)                              /* columns of a panel */
#define PBP_PANEL_ROW ((int64_t)PBP_PANEL * (int64_t)sizeof(PBP_REAL)) /* bytes of a panel's row */

/* Bytes from one contiguous column of a narrow pack to the next. */
PB_INLINE int64_t PBP_NAME(narrow_stride)(int64_t k) {
    return pb_ceil_div(k, PBP_LANES) * PB_VECTOR_BYTES;
}

PBP_FUNCTION int64_t PBP_NAME(pack_bytes)(int64_t k, int64_t n) {
    if (n <= PBP_NARROW) return n * PBP_NAME(narrow_stride)(k);
    return pb_ceil_div(n, PBP_PANEL) * k * PBP_PANEL_ROW;
}

/* Copy a block of contiguous columns, 128 bits square, into rows of a panel: a transposition in registers. */
PB_INLINE void PBP_NAME(pack_square)(const char *src, int64_t cs, char *dst) {
    const int64_t rs = PBP_PANEL_ROW;
#if PBP_IS_F32
    PBP_VEC128 c[4], r[4];
    PBP_UNROLL
    for (int j = 0; j < 4; j++) memcpy(&c[j], src + j * cs, 16);
    const PBP_VEC128 lo0 = PBP_SHUFFLE4(c[0], c[1], 0, 4, 1, 5), hi0 = PBP_SHUFFLE4(c[0], c[1], 2, 6, 3, 7);
    const PBP_VEC128 lo1 = PBP_SHUFFLE4(c[2], c[3], 0, 4, 1, 5), hi1 = PBP_SHUFFLE4(c[2], c[3], 2, 6, 3, 7);
    r[0] = PBP_SHUFFLE4(lo0, lo1, 0, 1, 4, 5);
    r[1] = PBP_SHUFFLE4(lo0, lo1, 2, 3, 6, 7);
    r[2] = PBP_SHUFFLE4(hi0, hi1, 0, 1, 4, 5);
    r[3] = PBP_SHUFFLE4(hi0, hi1, 2, 3, 6, 7);
    PBP_UNROLL
    for (int i = 0; i < 4; i++) memcpy(dst + i * rs, &r[i], 16);
#else
    PBP_VEC128 c[2], r[2];
    memcpy(&c[0], src, 16);
    memcpy(&c[1], src + cs, 16);
    r[0] = PBP_SHUFFLE2(c[0], c[1], 0, 2);
    r[1] = PBP_SHUFFLE2(c[0], c[1], 1, 3);
    memcpy(dst, &r[0], 16);
    memcpy(dst + rs, &r[1], 16);
#endif
}

/* Write `cols` columns of k rows as one panel at dst. */
PBP_FUNCTION void PBP_NAME(pack_panel)(int64_t k, int64_t cols, const char *src, int64_t rs, int64_t cs, char *dst) {
    const int64_t size = sizeof(PBP_REAL), side = 16 / size;
    int64_t i = 0;
    if (cols == PBP_PANEL && cs == size) {
        for (; i < k; i++, src += rs, dst += PBP_PANEL_ROW) {
            const PBP_VEC lo = *(const PBP_MEM *)src, hi = *(const PBP_MEM *)(src + PB_VECTOR_BYTES);
            *(PBP_MEM *)dst = lo;
            *(PBP_MEM *)(dst + PB_VECTOR_BYTES) = hi;
        }
        return;
    }
    if (cols == PBP_PANEL && rs == size)
        for (; i + side <= k; i += side, src += 16, dst += side * PBP_PANEL_ROW)
            for (int64_t j = 0; j < PBP_PANEL; j += side) PBP_NAME(pack_square)(src + j * cs, cs, dst + j * size);
    for (; i < k; i++, src += rs, dst += PBP_PANEL_ROW) {
        PBP_ELEM *d = (PBP_ELEM *)dst;
        int64_t j = 0;
        for (; j < cols; j++) d[j] = *(const PBP_ELEM *)(src + j * cs);
        for (; j < PBP_PANEL; j++) d[j] = 0;
    }
}

/* Write `count` whole panels of contiguous rows, each row in one go. */
PB_INLINE void PBP_NAME(pack_side_by_side)(const int count, int64_t k, const char *src, int64_t rs, char *dst) {
    const int64_t panel = k * PBP_PANEL_ROW;
    for (int64_t i = 0; i < k; i++, src += rs, dst += PBP_PANEL_ROW)
        PBP_UNROLL
        for (int p = 0; p < count; p++) {
            const PBP_VEC lo = *(const PBP_MEM *)(src + p * PBP_PANEL_ROW);
            const PBP_VEC hi = *(const PBP_MEM *)(src + p * PBP_PANEL_ROW + PB_VECTOR_BYTES);
            *(PBP_MEM *)(dst + p * panel) = lo;
            *(PBP_MEM *)(dst + p * panel + PB_VECTOR_BYTES) = hi;
        }
}

/* Write up to PBP_GROUP panels, one after the other. */
PB_INLINE void PBP_NAME(pack_group)(int64_t k, int64_t cols, const char *src, int64_t rs, int64_t cs, char *dst) {
    const int64_t size = sizeof(PBP_REAL), panel = k * PBP_PANEL_ROW;
    int64_t j = 0;
    if (cs == size && cols == PBP_GROUP * PBP_PANEL) {
        PBP_NAME(pack_side_by_side)(PBP_GROUP, k, src, rs, dst);
        return;
    }
    if (cs == size)
        for (; j + 4 * PBP_PANEL <= cols; j += 4 * PBP_PANEL, src += 4 * PBP_PANEL * cs, dst += 4 * panel)
            PBP_NAME(pack_side_by_side)(4, k, src, rs, dst);
    for (; j < cols; j += PBP_PANEL, src += PBP_PANEL * cs, dst += panel)
        PBP_NAME(pack_panel)(k, pb_min_i64(cols - j, PBP_PANEL), src, rs, cs, dst);
}

/* Copy `rows` by k of the left operand for tiles, laid out [k][rows]. */
PB_INLINE void PBP_NAME(copy_tile)(int64_t k, int64_t rows, const char *src, int64_t rs, int64_t cs, char *dst) {
    const int64_t size = sizeof(PBP_REAL);
    if (rs == size) {
#define PBP_COPY(r)                                                                            \
    case r:                                                                                    \
        for (; k > 0; k--, src += cs, dst += r * size) memcpy(dst, src, r * sizeof(PBP_REAL)); \
        return;
        switch (rows) {
            PBP_COPY(4)
            PBP_COPY(5)
            PBP_COPY(6)
            PBP_COPY(7)
            PBP_COPY(8)
            PBP_COPY(9)
            PBP_COPY(10)
            PBP_COPY(11)
            PBP_COPY(12)
        }
#undef PBP_COPY
    }
    for (; k > 0; k--, src += cs)
        for (int64_t r = 0; r < rows; r++, dst += size) *(PBP_ELEM *)dst = *(const PBP_ELEM *)(src + r * rs);
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

#if PBP_IS_F32
/* Panels of 16-bit elements, whatever n (see pb_tiles.h). */
PBP_FUNCTION void PBP_NAME(pack_half)(int kind, int64_t k, int64_t n, const char *src, int64_t rs, int64_t cs,
                                      char *dst) {
    float row[PBP_PANEL];
    uint16_t halves[PBP_PANEL];
    for (int64_t j = 0; j < n; j += PBP_PANEL, src += PBP_PANEL * cs)
        for (int64_t i = 0; i < k; i++, dst += sizeof halves) {
            const int64_t cols = pb_min_i64(n - j, PBP_PANEL);
            for (int64_t x = 0; x < PBP_PANEL; x++)
                row[x] = x < cols ? *(const PBP_ELEM *)(src + i * rs + x * cs) : 0;
            pb_round_values(kind, (char *)row, (const char *)row, PBP_PANEL);
            for (int64_t x = 0; x < PBP_PANEL; x++) {
                const int64_t to = kind == PBP_F16 ? x : x < PBP_LANES ? 2 * x : 2 * (x - PBP_LANES) + 1;
                halves[to] = pb_half_bits(kind, row[x]);
            }
            memcpy(dst, halves, sizeof halves);
        }
}
#endif
