/* The nest engine: an iteration space, inputs, a scalar DAG, outputs that store or reduce; block at a time.
 *
 * At entry the axes are brought into the memory order of the operands, as NumPy does it, and merged where every operand
 * allows (pb_nest_run). Then the space is walked in tiles: whole inner axes and a chunk of the next one, about
 * `block` elements that stay in L1 (pb_nest_box). Each operation of the DAG is one stencil call a tile, runs of cheap ones one list
 * of micro-operations (pb_nest_strips.h). Views that are
 * contiguous over the tile serve in place, and the last operation writes straight into a contiguous output; views that
 * do not move within the tile are scalars; the rest is copied to or from scratch. Where all operations are cheap ones and rows are
 * long enough, there are no tiles: one list does row after row (pb_nest_rows.h). Nests that only copy
 * have loops of their own (pb_copy.h).
 *
 * `compress` outputs append the tile's elements under their mask; such nests, like scatters, keep the program's order.
 *
 * Reductions: a tile is reduced axis by axis; when the tile holds the reduced axes whole, the result is stored at once, else
 * it is folded into an accumulator over the kept axes inside the outermost reduced one (spaces with more than
 * PB_ACCUMULATORS of them are cut into pieces), which is stored when that axis ends. All reducing outputs of a nest
 * reduce the same axes (the encoder splits others).
 */
#ifndef PB_NEST_H
#define PB_NEST_H
#include "pb_copy.h"
#include "pb_nest_bind.h"
#include "pb_nest_rows.h"
#include <stdlib.h>

/* Walk the space from where the operands stand: 0, or 1 when trapped. Operands stand there again at the end. */
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
            for (int32_t k = 0; k < n_x; k++) z->x[k].at += now * z->x[k].s[cut];
        }
        e[cut] = whole;
        for (int32_t k = 0; k < n_x; k++) z->x[k].at -= whole * z->x[k].s[cut];
        return status;
    }

    pb_operand *acc = &z->x[h->n_operands];
    int64_t pos[d], tile_n[d], size[d + 1], kept_n[d + 1];
    uint8_t is_reduced[d + 1];
    pb_groups g = {.size = size, .kept_n = kept_n, .is_reduced = is_reduced, .rest = 1, .complete = complete,
                   .is_single = n_acc == 1};
    acc->at = 0;
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

    pb_micro micro[3 * h->n_ops + 1];
    pb_pool pool = {.at = z->stack, .measure = 0};
    char *heap = NULL;
    int64_t bound = (chunk * inner * 8 + 192) * 3; /* is it sure to fit? else measure */
    if (bound * (h->n_in + h->n_ops + h->n_out + h->n_scratch) > PB_SCRATCH_BYTES || !complete) {
        pool.measure = 1;
        pb_bind_slots(z, &pool, t, chunk, inner, 0);
        pb_bind_outs(z, &pool, &g, t, chunk, inner, n_acc);
        if (pool.used > PB_SCRATCH_BYTES) {
            heap = malloc((size_t)pool.used + 64);
            if (!heap) return pb_trap(z->frame, PB_TRAP_MEMORY, -1);
            pool.at = (char *)(((uintptr_t)heap + 63) & ~(uintptr_t)63);
        }
        pool.used = 0, pool.measure = 0;
    }
    pb_bind_slots(z, &pool, t, chunk, inner, 0);
    pb_bind_outs(z, &pool, &g, t, chunk, inner, n_acc);
    if (!complete)
        for (int32_t k = 0; k < h->n_out; k++)
            if (z->out[k].act == PB_OUT_REDUCE) pb_fill_identity(z->out[k].w[0], pb_reduced_dtype(z->out[k].w), z->out[k].acc, n_acc + 1);

    pb_bind_strips(z, micro, chunk * inner);

    int fresh = 1; /* fixed scalars are splat once */
    for (int64_t r = chunk;;) {
        int64_t n = r * inner;
        tile_n[0] = r;
        for (int32_t k = 0; k < h->n_out; k++)
            if (z->out[k].act == PB_OUT_DIRECT) z->out[k].slot->p = z->out[k].slot->v = pb_here(z->out[k].x);
        for (int32_t k = 0; k < h->n_in; k++) {
            pb_in *in = z->in + k;
            pb_slot *slot = z->slots + k;
            switch (in->act) {
            case PB_ACT_DIRECT: slot->p = pb_here(in->x), slot->v = slot->splat ? slot->v : slot->p; break;
            case PB_ACT_LOAD:
                if (in->last == pb_here(in->x) && in->last_rows >= r && !in->moving) break; /* still there */
                pb_walk(pb_loads[in->x->memory], 0, pb_here(in->x), slot->p, pb_native_bytes[slot->dtype], d - t, tile_n,
                        in->x->s + t);
                in->last = pb_here(in->x), in->last_rows = r;
                break;
            case PB_ACT_LOAD_ONE: pb_loads[in->x->memory](slot->p, pb_here(in->x), 1, 0, 1, 0); break;
            case PB_ACT_IOTA: {
                int64_t start = in->x->at, *v = (int64_t *)slot->p;
                for (int64_t i = 0; i < n; i++) v[i] = start + in->offsets[i];
                break;
            }
            case PB_ACT_IOTA_ONE: *(int64_t *)slot->p = in->x->at; break;
            default: break;
            }
            if (slot->splat && (fresh || !slot->fixed)) pb_splat(slot->v, slot->p, pb_native_bytes[slot->dtype], n);
        }
        for (int32_t k = 0; k < h->n_ops; k++) {
            pb_slot *slot = z->slots + h->n_in + k;
            if (z->op[k].in_run) {
                if (z->op[k].list) pb_run_strips(z, z->op + k, n);
                continue;
            }
            if (pb_run_op(z, z->op + k, n, tile_n, t)) { status = 1; goto done; }
            if (slot->splat && (fresh || !slot->fixed)) pb_splat(slot->v, slot->p, pb_native_bytes[slot->dtype], n);
            if (h->n_in + k == h->mask && !slot->fixed && (!h->reduced || !complete) &&
                !memchr(slot->p, 1, slot->scalar ? 1 : (size_t)n)) goto next; /* no output changes */
        }
        for (int32_t k = 0; k < h->n_out; k++)
            if (pb_run_out(z, z->out + k, &g, n, tile_n, t, pos[t], acc->at)) { status = 1; goto done; }
        fresh = 0;
    next:;
        int32_t j = t;
        int64_t step = chunk;
        for (;;) {
            if (pos[j] + step < e[j]) {
                pos[j] += step;
                for (int32_t k = 0; k < n_x; k++) z->x[k].at += step * z->x[k].s[j];
                break;
            }
            for (int32_t k = 0; k < n_x && pos[j]; k++) z->x[k].at -= pos[j] * z->x[k].s[j];
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
    x->at = r[base].i + (offset >= 0 ? r[offset].i : 0);
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
        if (w[0] == PB_R_store || w[0] == PB_R_compress || w[0] == PB_R_argmax || w[0] == PB_R_argmin) continue;
        for (int32_t j = 0; j < z->h->n_axes; j++)
            if (!(z->h->reduced >> j & 1)) n[d] = r[axes[j]].i, s[d] = r[w[10 + j]].i, total *= n[d++];
        for (int64_t i = 0; i < total; i++) {
            pb_reg one;
            int64_t rest = i;
            char *p = r[w[4]].p + (w[5] >= 0 ? r[w[5]].i : 0);
            for (int32_t j = d - 1; j >= 0; j--) p += rest % n[j] * s[j], rest /= n[j];
            pb_fill_identity(w[0], w[2], (char *)&one, 1);
            if (w[0] == PB_R_sum) one.i = 0; /* of any type */
            pb_stores[w[3]](p, (const char *)&one, 1, 0, 1, 0);
        }
    }
}

static int pb_is_copy(const pb_nest *z) {
    const pb_nest_head *h = z->h;
    if (h->n_ops || h->n_in != 1 || h->n_out != 1 || z->in->w[0] != PB_IN_VIEW) return 0;
    const int32_t *w = z->out->w;
    return w[0] == PB_R_store && w[6] < 0 && w[9] == 0 && z->in->x->memory == z->out->x->memory;
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
                o->at = 0, o->memory = PB_M_i64, o->item = 0, o->own_tile = 1;
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
        out[k].w = w, out[k].index = 0;
        out[k].x = pb_read_operand(&z, &used, w + 10, live, w[4], w[5], w[3]);
        if (w[0] != PB_R_store) {
            out[k].x->own_tile = 0;
            for (int32_t j = 0; j < z.d; j++)
                if (red[j]) out[k].x->s[j] = 0;
        }
        w += 10 + h->n_axes + 3 * w[9];
    }
    if (empty) return pb_store_identities(&z, axes), 0;
    if (pb_is_copy(&z)) {
        pb_copy(pb_here(out->x), pb_here(in->x), in->x->item, z.d, e, out->x->s, in->x->s);
        return 0;
    }
    if (z.d == 0) z.d = 1;
    else if (z.d > 1) pb_order_axes(&z, is_arg);
    if (pb_fits_rows(&z) && (h->reduced && !z.red[z.d - 1] ? pb_nest_columns(&z) : pb_nest_rows(&z)) == 0) return 0;
    return pb_nest_box(&z);
}
#endif
