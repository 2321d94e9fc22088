/* Once for each tile: operations, reductions, outputs. */
#ifndef PB_NEST_TILE_H
#define PB_NEST_TILE_H
#include "pb_nest_walk.h"

/* The reduction of a tile of r * (inner elements): its kept elements, packed. mask: NULL, or what a sum is restricted to when
 * the innermost axes are reduced. */
static const char *pb_reduce_tile(const pb_groups *g, int32_t reduction, int32_t dtype, const char *x, const pb_bool *mask,
                                  int64_t r) {
    int32_t n = g->n_groups;
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
    int is_count = reduction == PB_R_sum && dtype == PB_N_bool; /* until the first step, which makes i64 */
    if (is_count && (!g->is_reduced[n - 1] && (n == 1 || size[n - 2] == 1))) { /* over an axis of extent 1 */
        int64_t rows = 1;
        for (int32_t j = 0; j < n; j++) rows *= size[j];
        pb_rows_sum_bool(g->buffer[1], x, rows, 1);
        x = g->buffer[1], dtype = PB_N_i64, is_count = 0;
    }
    while (n > 1 || (n == 1 && g->is_reduced[0])) {
        char *to = g->buffer[side];
        if (g->is_reduced[n - 1]) {
            int64_t rows = 1;
            for (int32_t j = 0; j < n - 1; j++) rows *= size[j];
            if (mask) pb_masked[dtype](to, x, mask, rows, size[n - 1]);
            else pb_rows[reduction][dtype](to, x, rows, size[n - 1]);
            mask = NULL, n--, x = to, side ^= 1;
        } else {
            int64_t m = size[n - 2], k = size[n - 1], before = 1;
            for (int32_t j = 0; j < n - 2; j++) before *= size[j];
            if (m > 1) {
                int32_t item = pb_native_bytes[dtype], made = is_count ? 8 : item;
                for (int64_t b = 0; b < before; b++) pb_cols[reduction][dtype](to + b * k * made, x + b * m * k * item, m, k);
                x = to, side ^= 1;
            }
            n -= 2;
            if (n == 0) break;
            size[n - 1] *= k; /* the kept group in front takes it in */
        }
        if (is_count) dtype = PB_N_i64, is_count = 0;
    }
    return x;
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
        pb_gather_raw(op->x->item, op->raw ? op->raw : slot->p, pb_here(op->x), op->places, n);
        if (op->raw) load(slot->p, op->raw, 1, 0, n, op->x->item);
        return 0;
    }
    int64_t zero = 0, place = 0;
    if (!pb_displace(z, triples, w[10], &zero, &place, 1)) return pb_trap(z->frame, PB_TRAP_INDEX, w[9]);
    char *p = pb_here(op->x) + place;
    if (op->act == PB_ACT_DIRECT) slot->p = p, slot->v = slot->splat ? slot->v : p;
    else if (op->act == PB_ACT_LOAD_ONE) load(slot->p, p, 1, 0, 1, 0);
    else pb_walk(load, 0, p, slot->p, pb_native_bytes[slot->dtype], z->d - t, tile_n, op->x->s + t);
    return 0;
}

/* i64 -> f64 in place */
static void pb_counts_to_f64(char *x, int64_t n) {
    for (int64_t i = 0; i < n; i++, x += 8) {
        int64_t count;
        memcpy(&count, x, 8);
        pb_f64 value = (pb_f64)count;
        memcpy(x, &value, 8);
    }
}

static int pb_run_out(const pb_nest *z, pb_out *out, pb_groups *g, int64_t n, int64_t *tile_n, int32_t t, int64_t row,
                      int64_t acc_at) {
    const int32_t *w = out->w, dtype = w[2];
    pb_store_fn store = pb_stores[out->x->memory];
    int32_t item = pb_native_bytes[dtype];
    switch (out->act) {
    case PB_OUT_DIRECT: break;
    case PB_OUT_SPLAT: pb_splat(pb_here(out->x), out->slot->p, item, n); break;
    case PB_OUT_STORE: pb_walk(store, 1, pb_here(out->x), out->slot->v, item, z->d - t, tile_n, out->x->s + t); break;
    case PB_OUT_BLEND: pb_blend_raw(item, pb_here(out->x), (const pb_bool *)out->mask->v, out->slot->v, n); break;
    case PB_OUT_COMPRESS:
        if (out->raw) store(out->raw, out->slot->v, 1, 0, n, out->x->item);
        out->index += pb_compress_raw(out->x->item, pb_here(out->x) + out->index * out->x->item, (const pb_bool *)out->mask->v,
                                      out->raw ? out->raw : out->slot->v, n);
        break;
    case PB_OUT_INDEXED: {
        if (w[9] && !pb_displace(z, w + 10 + z->h->n_axes, w[9], out->offsets, out->places, n))
            return pb_trap(z->frame, PB_TRAP_INDEX, w[8]);
        if (out->raw) store(out->raw, out->slot->v, 1, 0, n, out->x->item);
        pb_scatter_raw(out->x->item, pb_here(out->x), out->places, out->mask ? (const pb_bool *)out->mask->v : NULL,
                       out->raw ? out->raw : out->slot->v, n);
        break;
    }
    case PB_OUT_REDUCE: {
        if (!g->complete && (w[0] == PB_R_argmax || w[0] == PB_R_argmin)) {
            pb_more[w[0]][dtype](&out->index, out->acc, out->slot->v, row, n);
            break;
        }
        int64_t r = tile_n[0];
        const char *x = out->slot->v;
        const pb_bool *mask = out->mask ? (const pb_bool *)out->mask->v : NULL;
        if (out->raw) { /* columns under a mask: what is not wanted becomes zeros */
            pb_keep_wanted(item, out->raw, mask, x, n);
            x = out->raw, mask = NULL;
        }
        x = pb_reduce_tile(g, w[0], dtype, x, mask, r);
        const int32_t reduced = pb_reduced_dtype(w);
        item = pb_native_bytes[reduced];
        int64_t kept_s[g->kept_d + 1], kept = 1;
        int32_t k = 0;
        for (int32_t j = t; j < z->d; j++)
            if (!z->red[j]) g->kept_n[k] = tile_n[j - t], kept_s[k++] = out->x->s[j], kept *= tile_n[j - t];
        if (g->complete) {
            int32_t made = w[0] == PB_R_argmax || w[0] == PB_R_argmin ? 8 : item;
            if (reduced != dtype && out->x->memory == PB_M_f64) pb_counts_to_f64((char *)x, kept);
            pb_walk(store, 1, pb_here(out->x), (char *)x, made, k, g->kept_n, kept_s);
        } else {
            int32_t wide = w[0] == PB_R_sum && dtype == PB_N_f32 ? 8 : item;
            if (g->is_single && w[0] == PB_R_sum && dtype == PB_N_f64) pb_fold_exactly(out->acc, x);
            else pb_folds[w[0]][reduced](out->acc + acc_at * wide, x, kept);
        }
    }
    }
    return 0;
}

/* Store the accumulators of the kept axes inside axis `a`, and start anew. */
static void pb_flush(const pb_nest *z, pb_out *out, int32_t a, int64_t n_acc) {
    const int32_t *w = out->w;
    int64_t n[z->d + 1], s[z->d + 1];
    int32_t k = 0, item = pb_native_bytes[pb_reduced_dtype(w)];
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
    if (pb_reduced_dtype(w) != w[2] && out->x->memory == PB_M_f64) pb_counts_to_f64(from, n_acc);
    for (int32_t j = a + 1; j < z->d; j++)
        if (!z->red[j]) n[k] = z->e[j], s[k++] = out->x->s[j];
    pb_walk(pb_stores[out->x->memory], 1, pb_here(out->x), from, item, k, n, s);
    pb_fill_identity(w[0], pb_reduced_dtype(w), out->acc, n_acc + 1);
}
#endif
