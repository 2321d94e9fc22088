/* The nest engine: an iteration space, inputs, a scalar DAG, outputs that store or reduce; block at a time.
 *
 * At entry the axes are brought into the memory order of the operands, as NumPy does it, and merged where every operand
 * allows (pb_nest_run). Then the space is walked in tiles: whole inner axes and a chunk of the next one, about
 * `block` elements that stay in L1 (pb_nest_box). Each operation of the DAG is one stencil call a tile. Views that are
 * contiguous over the tile serve in place, and the last operation writes straight into a contiguous output; views that
 * do not move within the tile are scalars; the rest is copied to or from scratch.
 *
 * Reductions: a tile is reduced axis by axis; when the tile holds the reduced axes whole, the result is stored at once, else
 * it is folded into an accumulator over the kept axes inside the outermost reduced one (spaces with more than
 * PB_ACCUMULATORS of them are cut into pieces), which is stored when that axis ends. All reducing outputs of a nest
 * reduce the same axes (the encoder splits others).
 *
 * Words of a nest (vm/run/tape.py writes them), registers by number, -1 for none, strides one register an axis:
 *   pb_nest_head; axes: registers
 *   inputs  view: 0 dtype memory base offset strides...   scalar: 1 dtype register   iota: 2 dtype axis
 *   ops     0 stencil dtype n_args a b c scratch
 *           1 0 dtype 0 -1 -1 -1 scratch memory position n_indexes base offset strides... (slot extent stride)...   [gather]
 *   outs    reduction slot dtype memory base offset mask direct position n_indexes strides... (slot extent stride)...
 * `scratch` is the buffer that the operation may write; a buffer is reused after the last use of its slot. `direct`: no later
 * operation and no other output reads what an in-place output may have overwritten.
 */
#ifndef PB_NEST_H
#define PB_NEST_H
#include "pb_abi.h"
#include "pb_reduce.h"
#include <stdlib.h>

enum { PB_IN_VIEW = 0, PB_IN_SCALAR = 1, PB_IN_IOTA = 2 };
enum {
    PB_NEST_KEEP_ORDER = 1, /* scatter: the last of equal indexes wins, in the program's order */
    PB_NEST_STREAM = 2,     /* at most one operation, native views, nothing reduced or indexed */
    PB_NEST_GATHER = 4
};
enum {
    PB_ACCUMULATORS = 1024, /* kept elements that one pass accumulates */
    PB_LONG_ROW = 256,      /* rows of this length are worth a tile of their own, when joining them costs copies */
    PB_SCRATCH_BYTES = 49152
};

typedef struct {
    int32_t words;      /* of the whole nest */
    int32_t n_axes, n_in, n_ops, n_out;
    int32_t n_operands; /* views (inputs, gathers, outputs) and iotas */
    int32_t n_scratch;  /* buffers of `block` elements for results of operations */
    int32_t scratch_item;
    int32_t block;
    int32_t flags;
    int32_t arg_axis;   /* axis of argmax and argmin, else -1 */
    uint32_t reduced;   /* mask of the axes that reducing outputs reduce */
} pb_nest_head;

/* Whatever has an address at each point; for an iota the "address" is the value. */
typedef struct {
    char *p;
    int64_t *s; /* byte stride of each axis */
    int32_t item;
    uint8_t memory, form, own_tile; /* own_tile 0: reducing output, which is not walked with the tile */
} pb_operand;
enum { PB_FORM_SCALAR, PB_FORM_FLAT, PB_FORM_STRIDED };

typedef struct {
    char *p;         /* the value of the tile: n elements, or one if `scalar` */
    char *v;         /* n elements even so, when `splat` */
    uint8_t dtype, scalar, splat, fixed; /* fixed: the same scalar in every tile */
} pb_slot;

typedef struct {
    const int32_t *w;
    pb_operand *x;
    uint8_t act;
    uint8_t moving;   /* the copy goes straight to an output: it is made again for each tile */
    const char *last; /* source of what the scratch holds already */
    int64_t last_rows, *offsets;
} pb_in;
enum { PB_ACT_NONE, PB_ACT_DIRECT, PB_ACT_LOAD, PB_ACT_LOAD_ONE, PB_ACT_IOTA, PB_ACT_IOTA_ONE };

typedef struct {
    const int32_t *w;
    pb_block_fn fn;
    char **a, **b, **c;
    pb_slot *out;
    pb_operand *x; /* gather */
    int64_t *offsets, *places;
    char *raw;
    uint8_t act;
} pb_op;

typedef struct {
    const int32_t *w;
    pb_operand *x;
    pb_slot *slot, *mask;
    uint8_t act;
    int64_t *offsets, *places, index;
    char *raw, *acc;
} pb_out;
enum { PB_OUT_DIRECT, PB_OUT_STORE, PB_OUT_SPLAT, PB_OUT_INDEXED, PB_OUT_REDUCE };

typedef struct {
    pb_frame *frame;
    const pb_nest_head *h;
    int32_t d;
    int64_t *e;      /* extents */
    uint8_t *red;    /* whether the axis is reduced */
    pb_operand *x;   /* n_operands of them, then the position in the accumulators */
    pb_slot *slots;
    pb_reg *cells;   /* a scalar for each slot */
    pb_in *in;
    pb_op *op;
    pb_out *out;
    char *stack;     /* PB_SCRATCH_BYTES */
} pb_nest;

/* Copy between a strided tile and packed elements; `fn` converts. Axes that are contiguous in the tile are merged. */
static void pb_walk(pb_load_fn fn, int storing, char *strided, char *packed, int32_t packed_item, int32_t d,
                    const int64_t *extents, const int64_t *strides) {
    int64_t n[d + 2], s[d + 2], at[d + 2];
    int32_t k = 0;
    for (int32_t j = 0; j < d; j++) {
        if (extents[j] == 1) continue;
        if (k && s[k - 1] == strides[j] * extents[j]) n[k - 1] *= extents[j], s[k - 1] = strides[j];
        else n[k] = extents[j], s[k++] = strides[j];
    }
    while (k < 2) { /* an axis of one row in front */
        for (int32_t j = k; j > 0; j--) n[j] = n[j - 1], s[j] = s[j - 1];
        n[0] = 1, s[0] = 0, k++;
    }
    int64_t rows = n[k - 2], row = s[k - 2], count = n[k - 1], step = s[k - 1];
    for (int32_t j = 0; j < k - 2; j++) at[j] = 0;
    for (;;) {
        if (storing) fn(strided, packed, rows, row, count, step);
        else fn(packed, strided, rows, row, count, step);
        packed += rows * count * packed_item;
        int32_t j = k - 3;
        for (; j >= 0; j--) {
            strided += s[j];
            if (++at[j] < n[j]) break;
            strided -= s[j] * n[j], at[j] = 0;
        }
        if (j < 0) return;
    }
}

/* The places of a tile's elements as byte offsets from its first one. */
static void pb_walk_offsets(int64_t *out, int32_t d, const int64_t *extents, const int64_t *strides) {
    int64_t n = 1;
    out[0] = 0;
    for (int32_t j = d - 1; j >= 0; j--) { /* grow from the inner axes outwards */
        for (int64_t i = 1; i < extents[j]; i++)
            for (int64_t k = 0; k < n; k++) out[i * n + k] = out[k] + i * strides[j];
        n *= extents[j];
    }
}

/* places[i] = offsets[i] + sum of wrapped index * stride; 0 when an index is out of bounds. */
static int pb_displace(const pb_nest *z, const int32_t *triples, int32_t count, const int64_t *offsets, int64_t *places,
                       int64_t n) {
    int bad = 0;
    for (int32_t k = 0; k < count; k++, triples += 3) {
        const pb_slot *slot = z->slots + triples[0];
        const int64_t *index = (const int64_t *)slot->p, *from = k ? places : offsets;
        int64_t extent = z->frame->r[triples[1]].i, stride = z->frame->r[triples[2]].i;
        if (slot->scalar) {
            int64_t v = *index + (*index < 0 ? extent : 0);
            bad |= (uint64_t)v >= (uint64_t)extent;
            for (int64_t i = 0; i < n; i++) places[i] = from[i] + v * stride;
        } else {
            for (int64_t i = 0; i < n; i++) {
                int64_t v = index[i] + (index[i] < 0 ? extent : 0);
                bad |= (uint64_t)v >= (uint64_t)extent;
                places[i] = from[i] + v * stride;
            }
        }
    }
    return !bad;
}

static int pb_trap(pb_frame *f, int32_t code, int32_t position) {
    f->trap_code = code, f->trap_pos = position;
    return 1;
}

/* Fold or store the reduction of a tile of r * inner elements. groups: runs of kept or reduced axes, outermost first. */
typedef struct {
    int32_t n_groups, kept_d; /* kept_d: kept axes of the tile, as extents and strides below */
    int64_t *size, *kept_n;
    uint8_t *is_reduced;
    int64_t rest;             /* elements of the first group for each element of the chunked axis */
    char *buffer[2];
    int complete, is_single;  /* is_single: one accumulator */
} pb_groups;

static const char *pb_reduce_tile(const pb_groups *g, int32_t reduction, int32_t dtype, const char *x, int64_t r) {
    int32_t n = g->n_groups, item = pb_native_bytes[dtype];
    int64_t size[n + 1];
    for (int32_t j = 0; j < n; j++) size[j] = g->size[j];
    size[0] = r * g->rest;
    int side = 0;
    if ((reduction == PB_R_argmax || reduction == PB_R_argmin) && !g->is_reduced[n - 1]) { /* over an axis of extent 1 */
        int64_t rows = 1;
        for (int32_t j = 0; j < n; j++) rows *= size[j];
        pb_rows[reduction][dtype](g->buffer[0], x, rows, 1);
        return g->buffer[0];
    }
    while (n > 1 || (n == 1 && g->is_reduced[0])) {
        char *to = g->buffer[side];
        if (g->is_reduced[n - 1]) {
            int64_t rows = 1;
            for (int32_t j = 0; j < n - 1; j++) rows *= size[j];
            pb_rows[reduction][dtype](to, x, rows, size[n - 1]);
            n--, x = to, side ^= 1;
        } else {
            int64_t m = size[n - 2], k = size[n - 1], before = 1;
            for (int32_t j = 0; j < n - 2; j++) before *= size[j];
            if (m > 1) {
                for (int64_t b = 0; b < before; b++) pb_cols[reduction][dtype](to + b * k * item, x + b * m * k * item, m, k);
                x = to, side ^= 1;
            }
            n -= 2;
            if (n == 0) break;
            size[n - 1] *= k; /* the kept group in front takes it in */
        }
    }
    return x;
}

/* --- one box ---------------------------------------------------------------------------------------------------------------- */

/* How many inner axes a tile holds whole: returns the axis that is cut into chunks, and the chunk's extent. */
static int32_t pb_choose_tile(const pb_nest *z, int64_t *chunk, int64_t *inner_) {
    int32_t d = z->d, t = d - 1;
    const int64_t *e = z->e;
    int64_t inner = 1, block = z->h->block;
    if (z->h->flags & PB_NEST_STREAM) { /* nothing goes through scratch when rows serve in place: whole rows */
        int plain = d == 1 || e[t] >= PB_LONG_ROW;
        for (int32_t k = 0; k < z->h->n_operands; k++)
            plain &= z->x[k].s[t] == z->x[k].item || (z->x[k].s[t] == 0);
        if (plain) return *chunk = e[t], *inner_ = 1, t;
    }
    while (t > 0 && inner * e[t] <= block / 2) {
        int64_t length = inner * e[t];
        if (length >= ((z->h->flags & PB_NEST_GATHER) ? 16 : PB_LONG_ROW)) {
            int broken = 0;
            for (int32_t k = 0; k < z->h->n_operands && !broken; k++)
                broken = z->x[k].own_tile && z->x[k].s[t - 1] != z->x[k].s[t] * e[t];
            if (broken) break;
        }
        inner = length, t--;
    }
    int64_t r = block / inner;
    if (r < e[t]) { /* even chunks, whole vectors */
        int64_t chunks = (e[t] + r - 1) / r;
        r = (e[t] + chunks - 1) / chunks;
        if (inner == 1) r = (r + 63) & ~(int64_t)63;
        if (r > e[t]) r = e[t];
    } else {
        r = e[t];
    }
    *chunk = r, *inner_ = inner;
    return t;
}

static int32_t pb_form(const pb_nest *z, const pb_operand *x, int32_t t, int64_t r) {
    int64_t expected = x->item;
    int flat = 1, moves = 0;
    for (int32_t j = z->d - 1; j >= t; j--) {
        int64_t n = j == t ? r : z->e[j];
        if (n == 1) continue;
        flat &= x->s[j] == expected, moves |= x->s[j] != 0;
        expected *= n;
    }
    return !moves ? PB_FORM_SCALAR : flat ? PB_FORM_FLAT : PB_FORM_STRIDED;
}

typedef struct { char *at; int64_t used; int measure; } pb_pool; /* measure: only `used` matters, nothing is touched */

/* The next buffer; 128 bytes between buffers keep equal offsets from falling into one cache set. */
static char *pb_take(pb_pool *pool, int64_t bytes) {
    char *p = pool->at + pool->used;
    pool->used += ((bytes + 63) & ~(int64_t)63) + 128;
    return p;
}

static void pb_bind_slots(pb_nest *z, pb_pool *pool, int32_t t, int64_t r, int64_t inner) {
    const pb_nest_head *h = z->h;
    int64_t n = r * inner, tile_n[z->d + 1];
    int32_t td = z->d - t, n_in = h->n_in;
    char *scratch[h->n_scratch + 1];
    for (int32_t k = 0; k < h->n_scratch; k++) scratch[k] = NULL;
    for (int32_t j = 0; j < td; j++) tile_n[j] = j ? z->e[t + j] : r;

    for (int32_t k = 0; k < n_in; k++) {
        pb_in *in = z->in + k;
        pb_slot *slot = z->slots + k;
        slot->dtype = (uint8_t)in->w[1], slot->splat = 0, slot->fixed = 0;
        in->last = NULL, in->last_rows = 0, in->moving = 0;
        if (in->w[0] == PB_IN_SCALAR) {
            slot->p = (char *)&z->frame->r[in->w[2]], slot->scalar = slot->fixed = 1, in->act = PB_ACT_NONE;
            continue;
        }
        int native = in->w[0] == PB_IN_VIEW && pb_memory_native[in->x->memory];
        slot->scalar = in->x->form == PB_FORM_SCALAR;
        if (slot->scalar) {
            slot->p = (char *)&z->cells[k];
            in->act = in->w[0] == PB_IN_IOTA ? PB_ACT_IOTA_ONE : native ? PB_ACT_DIRECT : PB_ACT_LOAD_ONE;
        } else if (native && in->x->form == PB_FORM_FLAT) {
            in->act = PB_ACT_DIRECT;
        } else {
            in->act = in->w[0] == PB_IN_IOTA ? PB_ACT_IOTA : PB_ACT_LOAD;
            slot->p = pb_take(pool, n * pb_native_bytes[slot->dtype]);
            if (in->act == PB_ACT_IOTA) {
                in->offsets = (int64_t *)pb_take(pool, n * 8);
                if (!pool->measure) pb_walk_offsets(in->offsets, td, tile_n, in->x->s + t);
            }
        }
    }

    for (int32_t k = 0; k < h->n_ops; k++) {
        pb_op *op = z->op + k;
        const int32_t *w = op->w;
        pb_slot *slot = op->out = z->slots + n_in + k;
        slot->dtype = (uint8_t)w[2], slot->splat = slot->fixed = 0;
        if (w[0] == 1) {
            int scalar = 1;
            const int32_t *triples = w + 13 + h->n_axes;
            for (int32_t i = 0; i < w[10]; i++) scalar &= z->slots[triples[3 * i]].scalar;
            slot->scalar = scalar && op->x->form == PB_FORM_SCALAR;
            if (scalar) {
                int native = pb_memory_native[op->x->memory];
                op->act = slot->scalar ? (native ? PB_ACT_DIRECT : PB_ACT_LOAD_ONE)
                          : native && op->x->form == PB_FORM_FLAT ? PB_ACT_DIRECT : PB_ACT_LOAD;
            } else {
                op->act = PB_ACT_NONE;
                op->offsets = (int64_t *)pb_take(pool, n * 8), op->places = (int64_t *)pb_take(pool, n * 8);
                op->raw = pb_memory_native[op->x->memory] ? NULL : pb_take(pool, n * 8);
                if (!pool->measure) pb_walk_offsets(op->offsets, td, tile_n, op->x->s + t);
            }
        } else {
            pb_slot *arg[3];
            int scalar = 1, count = w[3];
            for (int32_t i = 0; i < 3; i++) {
                arg[i] = z->slots + w[4 + (i < count ? i : 0)];
                scalar &= arg[i]->scalar;
            }
            slot->scalar = (uint8_t)scalar, slot->fixed = 1;
            for (int32_t i = 0; i < count; i++) slot->fixed &= arg[i]->fixed;
            op->a = &arg[0]->p, op->b = &arg[1]->p, op->c = &arg[2]->p;
            const pb_block_fn *table = pb_blocks[w[1]];
            if (scalar || count == 1) {
                op->fn = table[0];
            } else {
                int32_t variant = count == 2 ? arg[1]->scalar | arg[0]->scalar << 1 : arg[1]->scalar | arg[2]->scalar << 1;
                if (count == 2 && variant == 2 && !table[2] && table[1] && pb_commutes[w[1]])
                    op->a = &arg[1]->p, op->b = &arg[0]->p, variant = 1;
                if (!table[variant]) {
                    variant = 0;
                    for (int32_t i = 0; i < count; i++) arg[i]->splat |= arg[i]->scalar;
                    op->a = &arg[0]->v, op->b = &arg[1]->v, op->c = &arg[2]->v;
                } else if (count == 3 && arg[0]->scalar) {
                    arg[0]->splat = 1, op->a = &arg[0]->v;
                }
                op->fn = table[variant];
            }
        }
        if (slot->scalar) {
            slot->p = (char *)&z->cells[n_in + k];
        } else if (w[7] >= 0) {
            if (!scratch[w[7]]) scratch[w[7]] = pb_take(pool, n * h->scratch_item);
            slot->p = scratch[w[7]];
        }
    }
}

static void pb_bind_outs(pb_nest *z, pb_pool *pool, pb_groups *g, int32_t t, int64_t r, int64_t inner, int64_t n_acc) {
    const pb_nest_head *h = z->h;
    int64_t n = r * inner, tile_n[z->d + 1], first = 0;
    int32_t td = z->d - t;
    for (int32_t j = 0; j < td; j++) tile_n[j] = j ? z->e[t + j] : r;
    if (h->reduced) { /* elements after the first step of pb_reduce_tile */
        int32_t last = g->n_groups - 1;
        first = n;
        if (g->is_reduced[last]) first = n / (last ? g->size[last] : r * g->rest);
        else if (h->arg_axis >= 0) first = n;
        else if (last > 0) first = n / (last > 1 ? g->size[last - 1] : r * g->rest);
        g->buffer[0] = pb_take(pool, first * 8), g->buffer[1] = pb_take(pool, first * 8);
    }
    for (int32_t k = 0; k < h->n_out; k++) {
        pb_out *out = z->out + k;
        const int32_t *w = out->w;
        pb_slot *slot = out->slot = z->slots + w[1];
        out->mask = NULL;
        if (w[0] != PB_R_store) {
            out->act = PB_OUT_REDUCE;
            slot->splat |= slot->scalar;
            if (!g->complete) out->acc = pb_take(pool, (n_acc + 1) * 8);
        } else if (w[6] >= 0 || w[9] > 0) {
            out->act = PB_OUT_INDEXED;
            slot->splat |= slot->scalar;
            if (w[6] >= 0) out->mask = z->slots + w[6], out->mask->splat |= out->mask->scalar;
            out->offsets = (int64_t *)pb_take(pool, n * 8);
            out->places = w[9] ? (int64_t *)pb_take(pool, n * 8) : out->offsets;
            out->raw = pb_memory_native[out->x->memory] ? NULL : pb_take(pool, n * 8);
            if (!pool->measure) pb_walk_offsets(out->offsets, td, tile_n, out->x->s + t);
        } else {
            int in_place = pb_memory_native[out->x->memory] && (out->x->form == PB_FORM_FLAT || n == 1);
            int made = w[1] >= h->n_in ? (z->op[w[1] - h->n_in].w[0] == 0 || z->op[w[1] - h->n_in].act != PB_ACT_DIRECT)
                                       : z->in[w[1]].act == PB_ACT_LOAD;
            if (slot->scalar && in_place) {
                out->act = PB_OUT_SPLAT;
            } else if (in_place && made && w[7]) {
                out->act = PB_OUT_DIRECT;
                for (int32_t i = 0; i < k; i++) /* one place only */
                    if (z->out[i].act == PB_OUT_DIRECT && z->out[i].slot == slot) out->act = PB_OUT_STORE;
                if (out->act == PB_OUT_DIRECT && w[1] < h->n_in) z->in[w[1]].moving = 1;
            } else {
                out->act = PB_OUT_STORE, slot->splat |= slot->scalar;
            }
        }
    }
    for (int32_t k = 0; k < h->n_in + h->n_ops; k++) {
        pb_slot *slot = z->slots + k;
        slot->v = slot->splat ? pb_take(pool, n * pb_native_bytes[slot->dtype]) : slot->p;
    }
}

static int pb_run_op(const pb_nest *z, pb_op *op, int64_t n, int64_t *tile_n, int32_t t) {
    pb_slot *slot = op->out;
    if (op->w[0] == 0) {
        op->fn(slot->p, *op->a, *op->b, *op->c, slot->scalar ? 1 : n);
        return 0;
    }
    const int32_t *w = op->w, *triples = w + 13 + z->h->n_axes;
    pb_load_fn load = pb_loads[op->x->memory];
    if (op->act == PB_ACT_NONE) {
        if (!pb_displace(z, triples, w[10], op->offsets, op->places, n)) return pb_trap(z->frame, PB_TRAP_INDEX, w[9]);
        pb_gather_raw(op->x->item, op->raw ? op->raw : slot->p, op->x->p, op->places, n);
        if (op->raw) load(slot->p, op->raw, 1, 0, n, op->x->item);
        return 0;
    }
    int64_t zero = 0, place;
    if (!pb_displace(z, triples, w[10], &zero, &place, 1)) return pb_trap(z->frame, PB_TRAP_INDEX, w[9]);
    char *p = op->x->p + place;
    if (op->act == PB_ACT_DIRECT) slot->p = p, slot->v = slot->splat ? slot->v : p;
    else if (op->act == PB_ACT_LOAD_ONE) load(slot->p, p, 1, 0, 1, 0);
    else pb_walk(load, 0, p, slot->p, pb_native_bytes[slot->dtype], z->d - t, tile_n, op->x->s + t);
    return 0;
}

static int pb_run_out(const pb_nest *z, pb_out *out, pb_groups *g, int64_t n, int64_t *tile_n, int32_t t, int64_t row,
                      int64_t acc_at) {
    const int32_t *w = out->w, dtype = w[2];
    pb_store_fn store = pb_stores[out->x->memory];
    int32_t item = pb_native_bytes[dtype];
    switch (out->act) {
    case PB_OUT_DIRECT: break;
    case PB_OUT_SPLAT: pb_splat(out->x->p, out->slot->p, item, n); break;
    case PB_OUT_STORE: pb_walk(store, 1, out->x->p, out->slot->v, item, z->d - t, tile_n, out->x->s + t); break;
    case PB_OUT_INDEXED: {
        if (w[9] && !pb_displace(z, w + 10 + z->h->n_axes, w[9], out->offsets, out->places, n))
            return pb_trap(z->frame, PB_TRAP_INDEX, w[8]);
        if (out->raw) store(out->raw, out->slot->v, 1, 0, n, out->x->item);
        pb_scatter_raw(out->x->item, out->x->p, out->places, out->mask ? (const pb_bool *)out->mask->v : NULL,
                       out->raw ? out->raw : out->slot->v, n);
        break;
    }
    case PB_OUT_REDUCE: {
        if (!g->complete && (w[0] == PB_R_argmax || w[0] == PB_R_argmin)) {
            pb_more[w[0]][dtype](&out->index, out->acc, out->slot->v, row, n);
            break;
        }
        int64_t r = tile_n[0];
        const char *x = pb_reduce_tile(g, w[0], dtype, out->slot->v, r);
        int64_t kept_s[g->kept_d + 1], kept = 1;
        int32_t k = 0;
        for (int32_t j = t; j < z->d; j++)
            if (!z->red[j]) g->kept_n[k] = tile_n[j - t], kept_s[k++] = out->x->s[j], kept *= tile_n[j - t];
        if (g->complete) {
            int32_t made = w[0] == PB_R_argmax || w[0] == PB_R_argmin ? 8 : item;
            pb_walk(store, 1, out->x->p, (char *)x, made, k, g->kept_n, kept_s);
        } else {
            int32_t wide = w[0] == PB_R_sum && dtype == PB_N_f32 ? 8 : item;
            if (g->is_single && w[0] == PB_R_sum && dtype == PB_N_f64) pb_fold_exactly(out->acc, x);
            else pb_folds[w[0]][dtype](out->acc + acc_at * wide, x, kept);
        }
    }
    }
    return 0;
}

/* Store the accumulators of the kept axes inside axis `a`, and start anew. */
static void pb_flush(const pb_nest *z, pb_out *out, int32_t a, int64_t n_acc) {
    const int32_t *w = out->w;
    int64_t n[z->d + 1], s[z->d + 1];
    int32_t k = 0, item = pb_native_bytes[w[2]];
    char *from = out->acc;
    if (w[0] == PB_R_argmax || w[0] == PB_R_argmin) {
        from = (char *)&out->index, item = 8;
    } else if (w[0] == PB_R_sum && w[2] == PB_N_f32) { /* f64 -> f32 in place: each write is behind the reads */
        for (int64_t i = 0; i < n_acc; i++) {
            pb_f32 x = (pb_f32)((pb_f64 *)from)[i];
            memcpy(from + i * 4, &x, 4);
        }
    }
    if (n_acc == 1 && w[0] == PB_R_sum && w[2] == PB_N_f64) ((pb_f64 *)from)[0] += ((pb_f64 *)from)[1];
    for (int32_t j = a + 1; j < z->d; j++)
        if (!z->red[j]) n[k] = z->e[j], s[k++] = out->x->s[j];
    pb_walk(pb_stores[out->x->memory], 1, out->x->p, from, item, k, n, s);
    pb_fill_identity(w[0], w[2], out->acc, n_acc + 1);
}

static int pb_nest_box(pb_nest *z) {
    const pb_nest_head *h = z->h;
    const int32_t d = z->d, n_x = h->n_operands + 1;
    int64_t *e = z->e, n_acc = 1, chunk, inner;
    int32_t a = 0, status = 0; /* the outermost reduced axis */
    while (a < d && !z->red[a]) a++;
    for (int32_t j = a + 1; j < d; j++) n_acc *= z->red[j] ? 1 : e[j];
    int32_t t = pb_choose_tile(z, &chunk, &inner);
    int complete = a > t || (a == t && chunk >= e[t]);
    if (!complete && n_acc > PB_ACCUMULATORS) { /* too many to accumulate: cut the longest kept axis */
        int32_t cut = -1;
        for (int32_t j = a + 1; j < d; j++)
            if (!z->red[j] && (cut < 0 || e[j] > e[cut])) cut = j;
        int64_t whole = e[cut], piece = whole * PB_ACCUMULATORS / n_acc;
        if (piece < 1) piece = 1;
        for (int64_t at = 0; at < whole && !status; at += piece) {
            int64_t now = piece < whole - at ? piece : whole - at;
            e[cut] = now;
            status = pb_nest_box(z);
            for (int32_t k = 0; k < n_x; k++) z->x[k].p += now * z->x[k].s[cut];
        }
        e[cut] = whole;
        for (int32_t k = 0; k < n_x; k++) z->x[k].p -= whole * z->x[k].s[cut];
        return status;
    }

    pb_operand *acc = &z->x[h->n_operands];
    int64_t pos[d], tile_n[d], size[d + 1], kept_n[d + 1];
    uint8_t is_reduced[d + 1];
    pb_groups g = {.size = size, .kept_n = kept_n, .is_reduced = is_reduced, .rest = 1, .complete = complete,
                   .is_single = n_acc == 1};
    acc->p = NULL;
    int64_t acc_stride = 1;
    for (int32_t j = d - 1; j >= 0; j--) {
        pos[j] = 0;
        acc->s[j] = j > a && !z->red[j] ? acc_stride : 0;
        if (j > a && !z->red[j]) acc_stride *= e[j];
    }
    for (int32_t j = t; j < d; j++) {
        tile_n[j - t] = j == t ? chunk : e[j];
        g.kept_d += !z->red[j];
        if (j > t && is_reduced[g.n_groups - 1] == z->red[j]) {
            size[g.n_groups - 1] *= e[j];
            if (g.n_groups == 1) g.rest *= e[j];
        } else {
            is_reduced[g.n_groups] = z->red[j], size[g.n_groups++] = tile_n[j - t];
        }
    }
    for (int32_t k = 0; k < h->n_operands; k++) z->x[k].form = (uint8_t)pb_form(z, z->x + k, t, chunk);

    pb_pool pool = {.at = z->stack, .measure = 0};
    char *heap = NULL;
    int64_t bound = (chunk * inner * 8 + 192) * 3; /* is it sure to fit? else measure */
    if (bound * (h->n_in + h->n_ops + h->n_out + h->n_scratch) > PB_SCRATCH_BYTES || !complete) {
        pool.measure = 1;
        pb_bind_slots(z, &pool, t, chunk, inner);
        pb_bind_outs(z, &pool, &g, t, chunk, inner, n_acc);
        if (pool.used > PB_SCRATCH_BYTES) {
            heap = malloc((size_t)pool.used + 64);
            if (!heap) return pb_trap(z->frame, PB_TRAP_MEMORY, -1);
            pool.at = (char *)(((uintptr_t)heap + 63) & ~(uintptr_t)63);
        }
        pool.used = 0, pool.measure = 0;
    }
    pb_bind_slots(z, &pool, t, chunk, inner);
    pb_bind_outs(z, &pool, &g, t, chunk, inner, n_acc);
    if (!complete)
        for (int32_t k = 0; k < h->n_out; k++)
            if (z->out[k].act == PB_OUT_REDUCE) pb_fill_identity(z->out[k].w[0], z->out[k].w[2], z->out[k].acc, n_acc + 1);

    int fresh = 1; /* fixed scalars are splat once */
    for (int64_t r = chunk;;) {
        int64_t n = r * inner;
        tile_n[0] = r;
        for (int32_t k = 0; k < h->n_out; k++)
            if (z->out[k].act == PB_OUT_DIRECT) z->out[k].slot->p = z->out[k].slot->v = z->out[k].x->p;
        for (int32_t k = 0; k < h->n_in; k++) {
            pb_in *in = z->in + k;
            pb_slot *slot = z->slots + k;
            switch (in->act) {
            case PB_ACT_DIRECT: slot->p = in->x->p, slot->v = slot->splat ? slot->v : slot->p; break;
            case PB_ACT_LOAD:
                if (in->last == in->x->p && in->last_rows >= r && !in->moving) break; /* still there */
                pb_walk(pb_loads[in->x->memory], 0, in->x->p, slot->p, pb_native_bytes[slot->dtype], d - t, tile_n,
                        in->x->s + t);
                in->last = in->x->p, in->last_rows = r;
                break;
            case PB_ACT_LOAD_ONE: pb_loads[in->x->memory](slot->p, in->x->p, 1, 0, 1, 0); break;
            case PB_ACT_IOTA: {
                int64_t start = (int64_t)in->x->p, *v = (int64_t *)slot->p;
                for (int64_t i = 0; i < n; i++) v[i] = start + in->offsets[i];
                break;
            }
            case PB_ACT_IOTA_ONE: *(int64_t *)slot->p = (int64_t)in->x->p; break;
            default: break;
            }
            if (slot->splat && (fresh || !slot->fixed)) pb_splat(slot->v, slot->p, pb_native_bytes[slot->dtype], n);
        }
        for (int32_t k = 0; k < h->n_ops; k++) {
            pb_slot *slot = z->slots + h->n_in + k;
            if (pb_run_op(z, z->op + k, n, tile_n, t)) { status = 1; goto done; }
            if (slot->splat && (fresh || !slot->fixed)) pb_splat(slot->v, slot->p, pb_native_bytes[slot->dtype], n);
        }
        for (int32_t k = 0; k < h->n_out; k++)
            if (pb_run_out(z, z->out + k, &g, n, tile_n, t, pos[t], (int64_t)acc->p)) { status = 1; goto done; }
        fresh = 0;

        int32_t j = t;
        int64_t step = chunk;
        for (;;) {
            if (pos[j] + step < e[j]) {
                pos[j] += step;
                for (int32_t k = 0; k < n_x; k++) z->x[k].p += step * z->x[k].s[j];
                break;
            }
            for (int32_t k = 0; k < n_x; k++) z->x[k].p -= pos[j] * z->x[k].s[j];
            pos[j] = 0;
            if (j == a && !complete)
                for (int32_t k = 0; k < h->n_out; k++)
                    if (z->out[k].act == PB_OUT_REDUCE) pb_flush(z, z->out + k, a, n_acc);
            if (--j < 0) goto done;
            step = 1;
        }
        r = chunk < e[t] - pos[t] ? chunk : e[t] - pos[t];
    }
done:
    free(heap);
    return status;
}

/* --- entry -------------------------------------------------------------------------------------------------------------------- */

/* Whether axis i should stand inside axis j by the strides of every operand: NumPy's rule, no operand may object. */
static int pb_wants_swap(const pb_operand *x, int32_t n_x, int32_t i, int32_t j) {
    int wants = 0;
    for (int32_t k = 0; k < n_x; k++) {
        int64_t si = x[k].s[i] < 0 ? -x[k].s[i] : x[k].s[i], sj = x[k].s[j] < 0 ? -x[k].s[j] : x[k].s[j];
        if (si == 0 || sj == 0) continue;
        if (si >= sj) return 0;
        wants = 1;
    }
    return wants;
}

static void pb_swap_axes(pb_nest *z, int32_t i, int32_t j, int8_t *is_arg) {
    int64_t e = z->e[i];
    uint8_t red = z->red[i];
    int8_t arg = is_arg[i];
    z->e[i] = z->e[j], z->e[j] = e, z->red[i] = z->red[j], z->red[j] = red, is_arg[i] = is_arg[j], is_arg[j] = arg;
    for (int32_t k = 0; k < z->h->n_operands; k++) {
        int64_t s = z->x[k].s[i];
        z->x[k].s[i] = z->x[k].s[j], z->x[k].s[j] = s;
    }
}

static void pb_order_axes(pb_nest *z, int8_t *is_arg) {
    if (!(z->h->flags & PB_NEST_KEEP_ORDER))
        for (int32_t i = 1; i < z->d; i++) /* insertion sort: stable, few axes */
            for (int32_t j = i; j > 0 && pb_wants_swap(z->x, z->h->n_operands, j - 1, j); j--) pb_swap_axes(z, j - 1, j, is_arg);
    if (z->h->arg_axis >= 0)
        for (int32_t j = 0; j + 1 < z->d; j++)
            if (is_arg[j]) pb_swap_axes(z, j, j + 1, is_arg);
    int32_t d = 0; /* merge neighbours that every operand sees as one axis */
    for (int32_t j = 1; j < z->d; j++) {
        int one = z->red[d] == z->red[j] && !is_arg[d] && !is_arg[j];
        for (int32_t k = 0; k < z->h->n_operands && one; k++) one = z->x[k].s[d] == z->x[k].s[j] * z->e[j];
        if (one) {
            z->e[d] *= z->e[j];
        } else {
            d++;
            z->e[d] = z->e[j], z->red[d] = z->red[j], is_arg[d] = is_arg[j];
        }
        for (int32_t k = 0; k < z->h->n_operands; k++) z->x[k].s[d] = z->x[k].s[j];
    }
    z->d = d + 1;
}

static pb_operand *pb_read_operand(pb_nest *z, int32_t *used, const int32_t *strides, const int8_t *live, int32_t base,
                                   int32_t offset, int32_t memory) {
    pb_operand *x = z->x + (*used)++;
    const pb_reg *r = z->frame->r;
    int32_t d = 0;
    x->p = r[base].p + (offset >= 0 ? r[offset].i : 0);
    x->memory = (uint8_t)memory, x->item = pb_memory_bytes[memory], x->own_tile = 1;
    for (int32_t j = 0; j < z->h->n_axes; j++)
        if (live[j]) x->s[d++] = r[strides[j]].i;
    return x;
}

/* Empty spaces: reducing outputs become the identity, nothing else happens. */
static void pb_store_identities(const pb_nest *z, const int32_t *axes) {
    const pb_reg *r = z->frame->r;
    for (int32_t k = 0; k < z->h->n_out; k++) {
        const int32_t *w = z->out[k].w;
        int64_t n[z->h->n_axes + 1], s[z->h->n_axes + 1], total = 1;
        int32_t d = 0;
        if (w[0] == PB_R_store || w[0] == PB_R_argmax || w[0] == PB_R_argmin) continue;
        for (int32_t j = 0; j < z->h->n_axes; j++)
            if (!(z->h->reduced >> j & 1)) n[d] = r[axes[j]].i, s[d] = r[w[10 + j]].i, total *= n[d++];
        for (int64_t i = 0; i < total; i++) {
            pb_reg one;
            int64_t rest = i;
            char *p = r[w[4]].p + (w[5] >= 0 ? r[w[5]].i : 0);
            for (int32_t j = d - 1; j >= 0; j--) p += rest % n[j] * s[j], rest /= n[j];
            pb_fill_identity(w[0], w[2], (char *)&one, 1);
            if (w[0] == PB_R_sum && w[2] == PB_N_f32) one.i = 0;
            pb_stores[w[3]](p, (const char *)&one, 1, 0, 1, 0);
        }
    }
}

/* Run the nest whose head is at `words`: 0, or 1 when trapped. */
static int pb_nest_run(pb_frame *frame, const int32_t *words) {
    const pb_nest_head *h = (const pb_nest_head *)words;
    const int32_t *axes = words + sizeof *h / 4, *w = axes + h->n_axes;
    const int32_t n_x = h->n_operands, width = h->n_axes + 1;
    int64_t e[width], strides[(n_x + 1) * width];
    uint8_t red[width];
    int8_t live[width], is_arg[width];
    pb_operand x[n_x + 1];
    pb_slot slots[h->n_in + h->n_ops + 1];
    pb_reg cells[h->n_in + h->n_ops + 1];
    pb_in in[h->n_in + 1];
    pb_op op[h->n_ops + 1];
    pb_out out[h->n_out + 1];
    char stack[PB_SCRATCH_BYTES] __attribute__((aligned(64)));
    pb_nest z = {.frame = frame, .h = h, .e = e, .red = red, .x = x, .slots = slots, .cells = cells, .in = in, .op = op,
                 .out = out, .stack = stack};
    int empty = 0;
    for (int32_t j = 0; j < h->n_axes; j++) {
        int64_t extent = frame->r[axes[j]].i;
        empty |= extent <= 0;
        live[j] = extent != 1;
        if (live[j]) e[z.d] = extent, red[z.d] = h->reduced >> j & 1, is_arg[z.d++] = j == h->arg_axis;
    }
    if (z.d == 0) e[0] = 1, red[0] = 0, is_arg[0] = 0;
    for (int32_t k = 0; k <= n_x; k++) x[k].s = strides + k * width, x[k].s[0] = 0;
    int32_t used = 0;
    for (int32_t k = 0; k < h->n_in; k++) {
        in[k].w = w, in[k].x = NULL;
        if (w[0] == PB_IN_VIEW) {
            in[k].x = pb_read_operand(&z, &used, w + 5, live, w[3], w[4], w[2]);
            w += 5 + h->n_axes;
        } else {
            if (w[0] == PB_IN_IOTA) {
                pb_operand *o = in[k].x = x + used++;
                o->p = NULL, o->memory = PB_M_i64, o->item = 0, o->own_tile = 1;
                for (int32_t j = 0, d = 0; j < h->n_axes; j++)
                    if (live[j]) o->s[d++] = j == w[2];
            }
            w += 3;
        }
    }
    for (int32_t k = 0; k < h->n_ops; k++) {
        op[k].w = w;
        if (w[0] == 1) {
            op[k].x = pb_read_operand(&z, &used, w + 13, live, w[11], w[12], w[8]);
            w += 13 + h->n_axes + 3 * w[10];
        } else {
            w += 8;
        }
    }
    for (int32_t k = 0; k < h->n_out; k++) {
        out[k].w = w;
        out[k].x = pb_read_operand(&z, &used, w + 10, live, w[4], w[5], w[3]);
        if (w[0] != PB_R_store) {
            out[k].x->own_tile = 0;
            for (int32_t j = 0; j < z.d; j++)
                if (red[j]) out[k].x->s[j] = 0;
        }
        w += 10 + h->n_axes + 3 * w[9];
    }
    if (empty) return pb_store_identities(&z, axes), 0;
    if (z.d == 0) z.d = 1;
    else if (z.d > 1) pb_order_axes(&z, is_arg);
    return pb_nest_box(&z);
}
#endif
