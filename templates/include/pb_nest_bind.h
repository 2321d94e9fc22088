/* Once for each box: the tile's size, and for every slot where its values lie, which stencil makes them, where they go. */
#ifndef PB_NEST_BIND_H
#define PB_NEST_BIND_H
#include "pb_nest_strips.h"
#include "pb_nest_walk.h"

/* Whether rows along the innermost axis serve in place in every operand, and it is better so: rows of `length` always, shorter
 * ones where joining them would copy what moves. */
static int pb_rows_serve(const pb_nest *z, int64_t length) {
    const int32_t t = z->d - 1;
    int serve = 1, copies = z->d == 1 || z->e[t] >= length;
    for (int32_t k = 0; k < z->h->n_operands; k++) {
        const int64_t *s = z->x[k].s + t;
        serve &= s[0] == z->x[k].item || s[0] == 0;
        if (t > 0) copies |= s[-1] != 0 && s[-1] != s[0] * z->e[t];
    }
    return serve && copies;
}

/* What joining rows costs: the bytes of a row, of all operands that have to be copied. */
static int64_t pb_joined_bytes(const pb_nest *z) {
    const int32_t t = z->d - 1;
    int64_t items = 0;
    for (int32_t k = 0; k < z->h->n_operands; k++) {
        const int64_t *s = z->x[k].s + t;
        if (s[0] != 0 && s[-1] != s[0] * z->e[t]) items += z->x[k].item;
    }
    return items * z->e[t];
}

/* How many inner axes a tile holds whole: returns the axis that is cut into chunks, and the chunk's extent. */
static int32_t pb_choose_tile(const pb_nest *z, int64_t *chunk, int64_t *inner_) {
    int32_t d = z->d, t = d - 1;
    const int64_t *e = z->e;
    int64_t inner = 1, block = z->h->block;
    if (z->h->flags & PB_NEST_STREAM) { /* nothing goes through scratch when rows serve in place: whole rows */
        if ((d == 1 || pb_joined_bytes(z) >= PB_SHORT_ROW) && pb_rows_serve(z, PB_LONG_ROW)) return *chunk = e[t], *inner_ = 1, t;
    } else if ((z->h->flags & PB_NEST_STRIPS) && d > 1 && e[t] < PB_LONG_ROW && e[t] * z->h->scratch_item >= PB_STRIP_BYTES) {
        if (pb_rows_serve(z, PB_LONG_ROW)) return *chunk = e[t], *inner_ = 1, t;
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

/* lists: operations on more than single values are done by lists of micro-operations alone. */
static void pb_bind_slots(pb_nest *z, pb_pool *pool, int32_t t, int64_t r, int64_t inner, int lists) {
    const pb_nest_head *h = z->h;
    int64_t n = r * inner, tile_n[z->d + 1];
    int32_t td = z->d - t, n_in = h->n_in;
    char *scratch[h->n_scratch + 1];
    for (int32_t k = 0; k < h->n_scratch; k++) scratch[k] = NULL;
    for (int32_t j = 0; j < td; j++) tile_n[j] = j ? z->e[t + j] : r;

    for (int32_t k = 0; k < n_in; k++) {
        pb_in *in = z->in + k;
        pb_slot *slot = z->slots + k;
        slot->dtype = (uint8_t)in->w[1], slot->splat = 0, slot->fixed = 0, slot->from = &slot->p;
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
            if (in->act == PB_ACT_DIRECT) slot->from = (char **)&in->x->at;
        } else if (native && in->x->form == PB_FORM_FLAT) {
            in->act = PB_ACT_DIRECT, slot->from = (char **)&in->x->at;
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
        slot->dtype = (uint8_t)w[2], slot->splat = slot->fixed = 0, slot->from = &slot->p;
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
            if (lists) {
                for (int32_t i = 0; i < count; i++) scalar &= z->slots[w[4 + i]].scalar;
                slot->scalar = (uint8_t)scalar;
                if (!scalar) goto bound;
            }
            for (int32_t i = 0; i < 3; i++) {
                arg[i] = z->slots + w[4 + (i < count ? i : 0)];
                scalar &= arg[i]->scalar;
            }
            slot->scalar = (uint8_t)scalar, slot->fixed = 1;
            for (int32_t i = 0; i < count; i++) slot->fixed &= arg[i]->fixed;
            op->a = &arg[0]->p, op->b = &arg[1]->p, op->c = &arg[2]->p;
            const pb_block_fn *table = pb_blocks[w[1]];
            op->variant = 0;
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
                op->fn = table[variant], op->variant = (uint8_t)variant;
            }
        }
    bound:
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
    int reduces = 0; /* over no axes too */
    for (int32_t k = 0; k < h->n_out; k++) reduces |= z->out[k].w[0] != PB_R_store && z->out[k].w[0] != PB_R_compress;
    if (reduces) { /* elements after the first step of pb_reduce_tile */
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
        if (w[0] == PB_R_compress) {
            out->act = PB_OUT_COMPRESS;
            slot->splat |= slot->scalar;
            out->mask = z->slots + w[6], out->mask->splat |= out->mask->scalar;
            out->raw = pb_memory_native[out->x->memory] ? NULL : pb_take(pool, n * 8);
        } else if (w[0] != PB_R_store) {
            out->act = PB_OUT_REDUCE;
            slot->splat |= slot->scalar;
            out->raw = NULL;
            if (w[6] >= 0) {
                out->mask = z->slots + w[6], out->mask->splat |= out->mask->scalar;
                if (!g->is_reduced[g->n_groups - 1]) out->raw = pb_take(pool, n * 8);
            }
            if (!g->complete) out->acc = pb_take(pool, (n_acc + 1) * 8);
        } else if (w[6] >= 0 && w[9] == 0 && pb_memory_native[out->x->memory] && (out->x->form == PB_FORM_FLAT || n == 1)) {
            out->act = PB_OUT_BLEND;
            slot->splat |= slot->scalar;
            out->mask = z->slots + w[6], out->mask->splat |= out->mask->scalar;
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
                if (out->act == PB_OUT_DIRECT) slot->from = (char **)&out->x->at;
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
#endif
