/* Register tiles of the product: R rows by NV vectors, for one way in which the panels of b hold their elements.
 *
 * A template over PBP_TILE_KIND and PBP_KIND inside that over the dtype (see pb_microkernel.h). Kind 0: panels of the
 * dtype itself. 1: bfloat16, a panel's row is one vector whose 32-bit lanes hold column j low and column j + PBP_LANES high,
 * so that a shift and a mask unfold it. 2: float16, columns in order.
 */

#if PBP_TILE_KIND == 2
PB_INLINE PBP_VEC PBP_NAME(widen_f16)(const char *p) {
#if defined(__AVX512F__) && PB_VECTOR_BYTES == 64
    typedef short half_vec __attribute__((vector_size(32)));
    half_vec h;
    memcpy(&h, p, sizeof h);
    return __builtin_ia32_vcvtph2ps512_mask(h, (PBP_VEC){0}, -1, 4);
#elif defined(__F16C__) && PB_VECTOR_BYTES == 32
    typedef short half_vec __attribute__((vector_size(16)));
    half_vec h;
    memcpy(&h, p, sizeof h);
    return __builtin_ia32_vcvtph2ps256(h);
#else
    typedef uint16_t half_vec __attribute__((vector_size(PB_VECTOR_BYTES / 2)));
    half_vec h;
    memcpy(&h, p, sizeof h);
    const PBP_MASK x = __builtin_convertvector(h, PBP_MASK), magnitude = (x & 0x7fff) << 13;
    const PBP_VEC finite = (PBP_VEC)magnitude * 0x1p112f; /* exact, subnormals too */
    const PBP_MASK special = magnitude >= 0x0f800000; /* infinities and NaN */
    return (PBP_VEC)((special & (magnitude | 0x7f800000)) | (~special & (PBP_MASK)finite) | (x & 0x8000) << 16);
#endif
}
#endif

/* The first one or two vectors of a panel's row. */
PB_INLINE void PBP_KIND(load)(const int count, const char *p, PBP_VEC *v) {
#if PBP_TILE_KIND == 0
    v[0] = *(const PBP_MEM *)p;
    if (count > 1) v[1] = *(const PBP_MEM *)(p + PB_VECTOR_BYTES);
#elif PBP_TILE_KIND == 1
    PBP_MASK x;
    memcpy(&x, p, sizeof x);
    v[0] = (PBP_VEC)(x << 16);
    if (count > 1) v[1] = (PBP_VEC)(x & (int32_t)0xffff0000u);
#else
    v[0] = PBP_NAME(widen_f16)(p);
    if (count > 1) v[1] = PBP_NAME(widen_f16)(p + PB_VECTOR_BYTES / 2);
#endif
}

PB_INLINE void PBP_KIND(tile_body)(const int R, const int NV, const pb_tile *t, const char *a, char *c,
                                    const char *residual, const char *ahead) {
    PBP_VEC acc[32];
    const char *b = t->b;
    const int64_t a_rs = t->a_rs, a_cs = t->a_cs, b_rs = t->b_rs, b_ps = t->b_ps, c_rs = t->c_rs;
    if (t->resume) {
        PBP_UNROLL
        for (int r = 0; r < R; r++) {
            __builtin_prefetch(c + (R + r) * c_rs, 1); /* the next tile begins with what it has so far */
            PBP_UNROLL
            for (int v = 0; v < NV; v++) acc[r * NV + v] = *(const PBP_MEM *)(c + r * c_rs + v * PB_VECTOR_BYTES);
        }
    } else {
        PBP_UNROLL
        for (int i = 0; i < R * NV; i++) acc[i] = (PBP_VEC){0};
    }
    const int64_t ahead_step = t->ahead_step;
    const char *other = ahead + t->ahead_other;
    /* One row runs faster on the hardware's own prefetching; one vector is what is left of a row of panels. */
    const int row_bytes = PBP_TILE_KIND ? PB_VECTOR_BYTES : 2 * PB_VECTOR_BYTES;
    const int prefetches = NV > 1 && NV < 8;
    int64_t rest = prefetches ? t->k - t->turn : 0;
    for (int64_t k = t->k - rest;; k = rest, rest = 0, ahead += t->ahead_jump, other += t->ahead_jump) {
        for (; k > 0; k--) {
            PBP_VEC bv[8];
            if (prefetches) {
                PBP_UNROLL
                for (int p = 0; p < NV / 2; p++)
                    PBP_UNROLL
                    for (int x = 0; x < row_bytes; x += 64) __builtin_prefetch(ahead + p * b_ps + x);
                const char *next = ahead + ahead_step;
                ahead = other;
                other = next;
            }
#if PBP_TILE_KIND == 0
            PBP_UNROLL
            for (int v = 0; v < NV; v++) bv[v] = *(const PBP_MEM *)(b + (v >> 1) * b_ps + (v & 1) * PB_VECTOR_BYTES);
            PBP_UNROLL
            for (int r = 0; r < R; r++) {
                const PBP_VEC av = PBP_NAME(splat)(*(const PBP_ELEM *)(a + r * a_rs));
                PBP_UNROLL
                for (int v = 0; v < NV; v++) acc[r * NV + v] = PBP_NAME(fma)(av, bv[v], acc[r * NV + v]);
            }
#else
            /* Panel by panel: unfolding takes registers, and broadcasting again costs little. */
            PBP_UNROLL
            for (int v = 0; v < NV; v += 2) {
                const int count = NV - v < 2 ? 1 : 2;
                PBP_KIND(load)(count, b + v / 2 * b_ps, bv);
                if (NV > 2) __asm__("" : "+r"(a)); /* no broadcast of the panel before stays in a register */
                PBP_UNROLL
                for (int r = 0; r < R; r++) {
                    const PBP_VEC av = PBP_NAME(splat)(*(const PBP_ELEM *)(a + r * a_rs));
                    PBP_UNROLL
                    for (int x = 0; x < count; x++)
                        acc[r * NV + v + x] = PBP_NAME(fma)(av, bv[x], acc[r * NV + v + x]);
                }
            }
#endif
            a += a_cs;
            b += b_rs;
        }
        if (!prefetches || rest == 0) break;
    }
    if (t->bias) {
        PBP_UNROLL
        for (int v = 0; v < NV; v++) {
            const PBP_VEC bias = *(const PBP_MEM *)(t->bias + v * PB_VECTOR_BYTES);
            PBP_UNROLL
            for (int r = 0; r < R; r++) acc[r * NV + v] += bias;
        }
    }
    if (residual) {
        PBP_UNROLL
        for (int r = 0; r < R; r++)
            PBP_UNROLL
            for (int v = 0; v < NV; v++)
                acc[r * NV + v] += *(const PBP_MEM *)(residual + r * t->residual_rs + v * PB_VECTOR_BYTES);
    }
    if (t->relu) {
        PBP_UNROLL
        for (int i = 0; i < R * NV; i++) acc[i] = PBP_NAME(relu)(acc[i]);
    }
    PBP_UNROLL
    for (int r = 0; r < R; r++)
        PBP_UNROLL
        for (int v = 0; v < NV; v++) *(PBP_MEM *)(c + r * c_rs + v * PB_VECTOR_BYTES) = acc[r * NV + v];
}

#define PBP_TILE_NAME(r, v) PBP_KIND(tile_##r##x##v)
#define PBP_TILE(r, v)                                                   \
    PBP_NOINLINE void PBP_TILE_NAME(r, v)(const pb_tile *t) {             \
        const char *a = t->a, *residual = t->residual, *ahead = t->ahead; \
        char *c = t->c;                                                   \
        for (int64_t left = t->tiles; left > 0; left--) {                 \
            PBP_KIND(tile_body)(r, v, t, a, c, residual, ahead);          \
            a += t->a_tile;                                               \
            c += r * t->c_rs;                                             \
            ahead += t->ahead_tile;                                       \
            if (residual) residual += r * t->residual_rs;                 \
        }                                                                 \
    }
PBP_TILE(1, 1) PBP_TILE(2, 1) PBP_TILE(3, 1) PBP_TILE(4, 1)
PBP_TILE(1, 2) PBP_TILE(2, 2) PBP_TILE(3, 2) PBP_TILE(4, 2)
PBP_TILE(1, 4) PBP_TILE(2, 4) PBP_TILE(1, 8) PBP_TILE(2, 6)
#if PBP_PAIR_ROWS >= 3
PBP_TILE(3, 4)
#endif
#if PBP_PAIR_ROWS >= 4
PBP_TILE(4, 4)
#endif
#if PBP_TILE_ROWS >= 6
PBP_TILE(5, 1) PBP_TILE(6, 1) PBP_TILE(5, 2) PBP_TILE(6, 2)
#endif
#if PBP_TILE_ROWS >= 8
PBP_TILE(7, 1) PBP_TILE(8, 1) PBP_TILE(7, 2) PBP_TILE(8, 2)
#endif
#if PBP_TILE_ROWS >= 12
PBP_TILE(9, 1) PBP_TILE(10, 1) PBP_TILE(11, 1) PBP_TILE(12, 1)
PBP_TILE(9, 2) PBP_TILE(10, 2) PBP_TILE(11, 2) PBP_TILE(12, 2)
#endif

/* [rows - 1]: tiles of one vector, one panel, two panels; three for two rows, four for one. */
static const pb_tile_fn PBP_KIND(tiles_1)[] __attribute__((unused)) = {
    PBP_TILE_NAME(1, 1), PBP_TILE_NAME(2, 1), PBP_TILE_NAME(3, 1), PBP_TILE_NAME(4, 1),
#if PBP_TILE_ROWS >= 6
    PBP_TILE_NAME(5, 1), PBP_TILE_NAME(6, 1),
#endif
#if PBP_TILE_ROWS >= 8
    PBP_TILE_NAME(7, 1), PBP_TILE_NAME(8, 1),
#endif
#if PBP_TILE_ROWS >= 12
    PBP_TILE_NAME(9, 1), PBP_TILE_NAME(10, 1), PBP_TILE_NAME(11, 1), PBP_TILE_NAME(12, 1),
#endif
};
static const pb_tile_fn PBP_KIND(tiles_2)[] __attribute__((unused)) = {
    PBP_TILE_NAME(1, 2), PBP_TILE_NAME(2, 2), PBP_TILE_NAME(3, 2), PBP_TILE_NAME(4, 2),
#if PBP_TILE_ROWS >= 6
    PBP_TILE_NAME(5, 2), PBP_TILE_NAME(6, 2),
#endif
#if PBP_TILE_ROWS >= 8
    PBP_TILE_NAME(7, 2), PBP_TILE_NAME(8, 2),
#endif
#if PBP_TILE_ROWS >= 12
    PBP_TILE_NAME(9, 2), PBP_TILE_NAME(10, 2), PBP_TILE_NAME(11, 2), PBP_TILE_NAME(12, 2),
#endif
};
static const pb_tile_fn PBP_KIND(tiles_4)[] __attribute__((unused)) = {
    PBP_TILE_NAME(1, 4), PBP_TILE_NAME(2, 4),
#if PBP_PAIR_ROWS >= 3
    PBP_TILE_NAME(3, 4),
#endif
#if PBP_PAIR_ROWS >= 4
    PBP_TILE_NAME(4, 4),
#endif
};

static const pb_tile_fn PBP_KIND(tiles_8)[] __attribute__((unused)) = {PBP_TILE_NAME(1, 8)};
static const pb_tile_fn PBP_KIND(tiles_6)[] __attribute__((unused)) = {0, PBP_TILE_NAME(2, 6)};
static const pb_tile_set PBP_KIND(tile_set) __attribute__((unused)) = {
    PBP_KIND(tiles_1), PBP_KIND(tiles_2), PBP_KIND(tiles_4), PBP_KIND(tiles_6), PBP_KIND(tiles_8)};

#undef PBP_TILE
#undef PBP_TILE_NAME
#undef PBP_TILE_KIND
#undef PBP_KIND
