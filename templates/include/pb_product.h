/* The matrix product: c = act(a @ b + bias + residual), batched, any strides, float32 and float64.
 *
 * `pb_product` is the only entry point; `pb_pack` lays a constant b out in panels. Every element of c is one chain of
 * fused multiply-adds over k in ascending order (where the level has FMA), whatever tile computed it: results do not
 * depend on the number of rows, on packing or on blocking. Exceptions, which split the chain over vector lanes: n <= 4,
 * and few rows against a transposed b.
 *
 * Operands of float32 products may be rounded to 16 bits (option `precision`): packs hold them so, everything else is
 * rounded where it is copied for the tiles. Sums stay float32.
 *
 * The templates (pb_microkernel.h with pb_tiles.h, pb_pack.h, pb_gemm.h) are included once for each dtype.
 */
#ifndef PB_PRODUCT_H
#define PB_PRODUCT_H
#include <stdint.h>
#include <string.h>

/* A library that needs one dtype alone saves half of the compile time by defining the other as 0. */
#ifndef PB_PRODUCT_F32
#define PB_PRODUCT_F32 1
#endif
#ifndef PB_PRODUCT_F64
#define PB_PRODUCT_F64 1
#endif

#include "pb_compiler.h"
#include "pb_round.h"
#include "pb_width.h"

/* Rows of the largest tile: its accumulators, two vectors of b and a broadcast fill the register file. */
#if PB_VECTOR_BYTES == 64
#define PBP_TILE_ROWS 12
#define PBP_PAIR_ROWS 4 /* up to this many rows take two panels at once */
#define PBP_AHEAD 64    /* rows of the panel to prefetch ahead */
#define PB_PACK_LAYOUT "f32p32-f64p16-narrow4"
#elif PB_VECTOR_BYTES == 32
#define PBP_TILE_ROWS 6
#define PBP_PAIR_ROWS 3
#define PBP_AHEAD 48
#define PB_PACK_LAYOUT "f32p16-f64p8-narrow4"
#else
#if defined(__aarch64__)
#define PBP_TILE_ROWS 8
#define PBP_PAIR_ROWS 4
#else
#define PBP_TILE_ROWS 4
#define PBP_PAIR_ROWS 2
#endif
#define PBP_AHEAD 64
#define PB_PACK_LAYOUT "f32p8-f64p4-narrow4"
#endif

#define PBP_NARROW 4          /* up to this many columns are dot products over contiguous columns of b */
#define PBP_DOT_ROWS 4        /* up to this many rows against a transposed b are dot products, too */
#define PBP_LONG_K 2048       /* packed panels longer than this are cut into blocks */
#define PBP_SCRATCH_A 262144  /* bytes of a copied block of the left operand: half of a common L2 */
#define PBP_PANEL_BYTES 16384 /* a panel packed on the fly: half of a common L1 */
#define PBP_GROUP 16          /* panels packed on the fly at once, half of a common L2: a is read once for all of them */
#define PBP_FEW_PANELS 4      /* ... for few rows, which wait for packing more than for a */
#define PBP_FEW_BYTES 65536   /* a block of so few rows stays in L2 itself */
#define PBP_NEAR 16           /* rows to prefetch ahead of a panel that lies in L2 */
#define PBP_STREAM_BYTES 196608 /* a b this large is read row by row when there are few rows of a */
#define PBP_FAR_BYTES 4194304   /* a b this large is read from memory, or from the far end of the last cache */
#define PBP_STRETCH 2048        /* bytes of each of eight rows of b that several rows of a read in turn */
#define PBP_STREAM_K 16         /* ... in blocks of this many */
#define PBP_ROWS_K 256          /* ... of this many, for more rows: pages and cache lines that a second tile finds again */

typedef struct {
    int32_t dtype; /* 0 f32, 1 f64; 2, 3: f32 with a and b rounded to bfloat16, float16, which a pack holds in 16 bits */
    int32_t nbatch;
    int32_t act; /* 0 none, 1 relu: max(x, 0), NaN kept */
    int32_t has_pack;
    int64_t m, n, k;
    const int64_t *batch; /* nbatch extents */
    const char *a;
    int64_t a_rs, a_cs; /* all strides in bytes */
    const int64_t *a_bs;
    const char *b; /* not read when has_pack */
    int64_t b_rs, b_cs;
    const int64_t *b_bs;
    const void *pack; /* from pb_pack of a library with the same PB_PACK_LAYOUT; any alignment, best 64 */
    char *c;          /* overlaps nothing that is read */
    int64_t c_rs, c_cs;
    const int64_t *c_bs;
    const char *bias; /* n elements or NULL */
    int64_t bias_s;
    const char *residual; /* as large as c, or NULL; overlaps c nowhere */
    int64_t residual_rs, residual_cs;
    const int64_t *residual_bs;
} pb_product_args;

/* PB_PRODUCT_ARGS_ONLY: the arguments and the layout's name alone, for code that calls a product compiled elsewhere. */
#ifndef PB_PRODUCT_ARGS_ONLY

#define PBP_FUNCTION static __attribute__((unused))
#define PBP_NOINLINE static __attribute__((noinline, unused))
#define PBP_UNROLL PB_UNROLL(32)
#ifndef __has_builtin
#define __has_builtin(x) 0
#endif

/* Blocks of c, one below the other, each R rows by whole vectors that are contiguous along the row. */
typedef struct {
    int64_t tiles; /* how many blocks */
    int64_t k;
    const char *a;
    int64_t a_rs, a_cs, a_tile; /* tile: to the next one's rows */
    const char *b;
    int64_t b_rs, b_ps; /* from one row of a panel to the next; from one panel to the next */
    char *c;
    int64_t c_rs;
    const char *bias; /* as many contiguous elements as the tile has columns, or NULL */
    const char *residual; /* likewise in each row, or NULL */
    int64_t residual_rs;
    int32_t relu;
    int32_t resume; /* start from what c holds: a later block of k */
    /* Tiles prefetch a row's bytes (of each of their panels) for each row of k, by turns at `ahead` and ahead_other bytes from
     * there; both places move by ahead_step once used and, after `turn` rows, by ahead_jump once. The next tile begins
     * ahead_tile bytes further. */
    const char *ahead;
    int64_t ahead_other, ahead_step, ahead_jump, turn, ahead_tile;
} pb_tile;

typedef void (*pb_tile_fn)(const pb_tile *);
typedef struct {
    const pb_tile_fn *vector, *panel, *pair, *three, *four; /* how many columns a tile has; indexed by its rows - 1 */
} pb_tile_set;

/* Scratch for operands copied on the fly; each thread its own. */
typedef struct {
    char a[PBP_SCRATCH_A];
    char b[PBP_GROUP * PBP_PANEL_BYTES];
} pb_product_scratch;
static __thread pb_product_scratch pb_scratch __attribute__((aligned(64), unused));

/* One product without batch axes; b is a pack when b_packed. */
typedef struct {
    int64_t m, n, k;
    const char *a;
    int64_t a_rs, a_cs;
    const char *b;
    int64_t b_rs, b_cs;
    char *c;
    int64_t c_rs, c_cs;
    const char *bias;
    int64_t bias_s;
    int32_t b_packed, relu;
    const char *residual;
    int64_t residual_rs, residual_cs;
    int32_t rounding; /* of a and b: PBP_EXACT, PBP_BF16, PBP_F16 */
} pb_gemm;

PB_INLINE int64_t pb_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
PB_INLINE int64_t pb_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

#if PB_PRODUCT_F32
#define PBP_REAL float
#define PBP_BITS int32_t
#define PBP_NAME(x) pbp_##x##_f32
#define PBP_LANES (PB_VECTOR_BYTES / 4)
#define PBP_IS_F32 1
#include "pb_microkernel.h"
#include "pb_pack.h"
#include "pb_gemm.h"
#undef PBP_REAL
#undef PBP_BITS
#undef PBP_NAME
#undef PBP_LANES
#undef PBP_IS_F32
#endif

#if PB_PRODUCT_F64
#define PBP_REAL double
#define PBP_BITS int64_t
#define PBP_NAME(x) pbp_##x##_f64
#define PBP_LANES (PB_VECTOR_BYTES / 8)
#define PBP_IS_F32 0
#include "pb_microkernel.h"
#include "pb_pack.h"
#include "pb_gemm.h"
#undef PBP_REAL
#undef PBP_BITS
#undef PBP_NAME
#undef PBP_LANES
#undef PBP_IS_F32
#endif

#if PB_PRODUCT_F32 && PB_PRODUCT_F64
#define PBP_BY_DTYPE(dtype, name) ((dtype) == 1 ? pbp_##name##_f64 : pbp_##name##_f32)
#elif PB_PRODUCT_F32
#define PBP_BY_DTYPE(dtype, name) ((void)(dtype), pbp_##name##_f32)
#else
#define PBP_BY_DTYPE(dtype, name) ((void)(dtype), pbp_##name##_f64)
#endif

/* Bytes that pb_pack writes for a (k, n) operand. */
PBP_FUNCTION int64_t pb_pack_bytes(int32_t dtype, int64_t k, int64_t n) {
#if PB_PRODUCT_F32
    if (dtype > 1) return pb_ceil_div(n, 2 * (PB_VECTOR_BYTES / 4)) * k * PB_VECTOR_BYTES;
#endif
    return PBP_BY_DTYPE(dtype, pack_bytes)(k, n);
}

/* Write (k, n) of any strides into this level's panels. */
PBP_FUNCTION void pb_pack(int32_t dtype, int64_t k, int64_t n, const char *src, int64_t row_stride_bytes,
                          int64_t col_stride_bytes, void *dst) {
#if PB_PRODUCT_F32
    if (dtype > 1) {
        pbp_pack_half_f32(dtype - 1, k, n, src, row_stride_bytes, col_stride_bytes, (char *)dst);
        return;
    }
#endif
    PBP_BY_DTYPE(dtype, pack)(k, n, src, row_stride_bytes, col_stride_bytes, (char *)dst);
}

PBP_FUNCTION void pb_product(const pb_product_args *p) {
    int64_t index[32] = {0};
    int nbatch = p->nbatch;
    pb_gemm g = {p->m, p->n, p->k, p->a, p->a_rs, p->a_cs, p->has_pack ? (const char *)p->pack : p->b, p->b_rs, p->b_cs,
                 p->c, p->c_rs, p->c_cs, p->bias, p->bias_s, p->has_pack, p->act == 1,
                 p->residual, p->residual_rs, p->residual_cs, p->dtype > 1 ? p->dtype - 1 : PBP_EXACT};
    /* Strides of axes with one element say nothing: give them the value that suits. */
    const int64_t size = p->dtype == 1 ? 8 : 4;
    if (g.m == 0 || g.n == 0) return;
    for (int i = 0; i < nbatch; i++)
        if (p->batch[i] == 0) return;
    if (g.n == 1) g.b_cs = g.c_cs = g.residual_cs = size;
    if (g.k == 1) g.a_cs = size;
    /* Inner batch axes that share b and continue the rows of a and c are more rows. */
    while (nbatch > 0) {
        const int i = nbatch - 1;
        const int64_t extent = p->batch[i];
        if (extent != 1) {
            if (!p->has_pack && p->b_bs[i] != 0) break;
            if (g.m == 1) {
                g.a_rs = p->a_bs[i];
                g.c_rs = p->c_bs[i];
                if (g.residual) g.residual_rs = p->residual_bs[i];
            } else if (p->a_bs[i] != g.m * g.a_rs || p->c_bs[i] != g.m * g.c_rs ||
                       (g.residual && p->residual_bs[i] != g.m * g.residual_rs)) {
                break;
            }
            g.m *= extent;
        }
        nbatch--;
    }
    void (*run)(const pb_gemm *) = PBP_BY_DTYPE(p->dtype, gemm);
    for (;;) {
        int i = nbatch - 1;
        run(&g);
        for (; i >= 0; i--) {
            if (++index[i] < p->batch[i]) {
                g.a += p->a_bs[i];
                g.c += p->c_bs[i];
                if (!p->has_pack) g.b += p->b_bs[i];
                if (g.residual) g.residual += p->residual_bs[i];
                break;
            }
            index[i] = 0;
            g.a -= p->a_bs[i] * (p->batch[i] - 1);
            g.c -= p->c_bs[i] * (p->batch[i] - 1);
            if (!p->has_pack) g.b -= p->b_bs[i] * (p->batch[i] - 1);
            if (g.residual) g.residual -= p->residual_bs[i] * (p->batch[i] - 1);
        }
        if (i < 0) return;
    }
}
#endif /* PB_PRODUCT_ARGS_ONLY */
#endif
