/* Nests of nothing but cheap operations, row after row in one list for the accumulator machine of pb_strip.h.
 *
 * A row is the innermost axis, contiguous in every operand that moves along it, at least a strip long; all of it is reduced or
 * nothing is. Rows are cut into windows where something has to be done between strips: results that are read again lie in scratch
 * no longer than a window, and what f64 lanes have added up is taken into a sum that knows what it lost. Elements that are left after the last whole
 * strip are done by one more strip that ends with the row, so no output may lie where it would change what that strip reads.
 *
 * The list ends in `window`, which asks pb_next_window for what is next; registers hold the value in flight from the first
 * element of the nest to the last, and between two rows there are a few dozen instructions.
 */
#ifndef PB_NEST_ROWS_H
#define PB_NEST_ROWS_H
#include "pb_nest_bind.h"
#include "pb_nest_tile.h"

enum { PB_WINDOW_STRIPS = 16 };

typedef struct {
    pb_nest *z;
    pb_micro *window, *row; /* of the list */
    int64_t bytes, begin;   /* of a row; where the window begins in it */
    int64_t length;         /* of a window, whole strips */
    int64_t *pos;           /* on the outer axes */
    int32_t outer;          /* the innermost of those that pb_next_rows walks; `row` itself does what is inside of it */
    int8_t wide;            /* f64 */
    int8_t has_scalars;     /* operations on single values, once a row */
    int8_t has_scratch;     /* results that are read again later */
} pb_row_walk;

/* --- reductions ------------------------------------------------------------------------------------------------------------ */

PB_INLINE pb_f64 pb_lanes_total(pb_v_f64 x) {
    pb_vlanes_f64 all = {.v = x};
    for (int w = PB_V_f64 / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++) all.i[i] += all.i[i + w];
    return all.i[0];
}
/* last: of the last window. f32 sums have one window, and f64 to spare. */
PB_INLINE pb_f64 pb_end_sum_f32(pb_f64 last, pb_f64 total, pb_f64 lost) { return (void)total, (void)lost, last; }
PB_INLINE pb_f64 pb_end_sum_f64(pb_f64 last, pb_f64 total, pb_f64 lost) {
    total = pb_add_exactly(total, last, &lost);
    const pb_f64 sum = total + lost;
    return __builtin_expect(sum == 0 && lost == 0, 0) ? total : sum; /* -0 with nothing lost stays -0 */
}
#define PB_ROW_END(T, B)                                                                                                \
    PB_INLINE void pb_begin_held_##T(pb_held_##T *held, int32_t reduction) {                                            \
        if (reduction == PB_R_sum) {                                                                                    \
            for (int i = 0; i < 4; i++) held->sums[i] = pb_v_fill_f64(-0.0); /* which changes no sum */                 \
            held->total = -0.0, held->lost = 0;                                                                         \
        } else {                                                                                                        \
            held->best[0] = held->best[1] = pb_v_fill_##T(reduction == PB_R_max ? -PB_INF_##T : PB_INF_##T);            \
            held->nan[0] = held->nan[1] = (pb_v_##B){0};                                                                \
        }                                                                                                               \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_end_held_##T(pb_held_##T *held, int32_t reduction) {                                            \
        if (reduction == PB_R_sum) {                                                                                    \
            const pb_f64 last = pb_lanes_total((held->sums[0] + held->sums[1]) + (held->sums[2] + held->sums[3]));      \
            return (pb_##T)pb_end_sum_##T(last, held->total, held->lost);                                               \
        }                                                                                                               \
        pb_vlanes_##T a = {.v = held->best[0]}, b = {.v = held->best[1]};                                               \
        pb_vlanes_i64 nan = {.v = (pb_v_i64)(held->nan[0] | held->nan[1])};                                             \
        pb_i64 bits = 0;                                                                                                \
        for (int i = 0; i < PB_V_i64; i++) bits |= nan.i[i];                                                            \
        if (bits) return PB_NAN_##T;                                                                                    \
        a.v = reduction == PB_R_max ? pb_v_greater_##T(a.v, b.v) : pb_v_lesser_##T(a.v, b.v);                           \
        for (int w = PB_V_##T / 2; w > 0; w /= 2)                                                                       \
            for (int i = 0; i < w; i++)                                                                                 \
                a.i[i] = (reduction == PB_R_max ? a.i[i + w] > a.i[i] : a.i[i + w] < a.i[i]) ? a.i[i + w] : a.i[i];     \
        return a.i[0];                                                                                                  \
    }                                                                                                                   \
    PB_ROW_STEP(sum, T) PB_ROW_STEP(max, T) PB_ROW_STEP(min, T)                                                         \
    static const pb_any_fn pb_row_steps_##T[3][4] = {PB_ROW_STEPS(sum, T), PB_ROW_STEPS(max, T), PB_ROW_STEPS(min, T)};
/* The end of a row, p: what is held of it, q: where it goes. */
#define PB_ROW_STEP(name, T)                                                                                            \
    PB_STRIP_BEGIN(end_##name, T)                                                                                       \
        *(pb_##T *)m->q = pb_end_held_##T((pb_held_##T *)m->p, PB_R_##name);                                            \
        pb_begin_held_##T((pb_held_##T *)m->p, PB_R_##name);                                                            \
    PB_STRIP_NEXT(T)
#define PB_ROW_STEPS(name, T)                                                                                           \
    {(pb_any_fn)pb_strip_##name##_##T, (pb_any_fn)pb_strip_##name##_loop_##T, (pb_any_fn)pb_strip_##name##_m_##T,       \
     (pb_any_fn)pb_strip_end_##name##_##T}
PB_ROW_END(f32, b32)
PB_ROW_END(f64, b64)

static void pb_begin_held(const pb_row_walk *walk, pb_out *out) {
    if (walk->wide) pb_begin_held_f64((pb_held_f64 *)out->acc, out->w[0]);
    else pb_begin_held_f32((pb_held_f32 *)out->acc, out->w[0]);
}

/* --- from window to window, from row to row ---------------------------------------------------------------------------------- */

/* Addresses of the list's operands in the window that begins now. */
static void pb_aim_window(const pb_row_walk *walk) {
    const int64_t left = walk->bytes - walk->begin;
    const int64_t length = left < walk->length + PB_STRIP_BYTES ? left : walk->length; /* so the last one has a whole strip */
    const int64_t rest = length % PB_STRIP_BYTES;
    for (pb_micro *m = (pb_micro *)walk->row->p; m < walk->row; m++) {
        if (m == walk->window) continue;
        if (m->from[0]) m->p = *m->from[0] + (m->moves & 1 ? walk->begin : 0);
        if (m->from[1]) m->q = *m->from[1] + (m->moves & 2 ? walk->begin : 0);
    }
    walk->window->q = (char *)(intptr_t)(length - rest), walk->window->from[1] = (char **)(intptr_t)rest;
}

static int64_t pb_next_window(pb_micro *window) {
    pb_row_walk *walk = (pb_row_walk *)window->from[0];
    const pb_nest *z = walk->z;
    walk->begin += (intptr_t)window->q + (intptr_t)window->from[1];
    if (walk->begin >= walk->bytes) return -1;
    for (int32_t k = 0; walk->wide && k < z->h->n_out; k++) {
        if (z->out[k].w[0] != PB_R_sum) continue;
        pb_held_f64 *held = (pb_held_f64 *)z->out[k].acc;
        held->total = pb_add_exactly(held->total, pb_lanes_total(held->sums[0] + held->sums[2]), &held->lost);
        held->sums[0] = held->sums[2] = pb_v_fill_f64(-0.0);
    }
    pb_aim_window(walk);
    return 0;
}

/* Single values that the row's elements are combined with. */
static void pb_begin_row(const pb_row_walk *walk) {
    const pb_nest *z = walk->z;
    for (int32_t k = 0; k < z->h->n_in; k++)
        if (z->slots[k].scalar && !z->slots[k].fixed) z->slots[k].p = pb_here(z->in[k].x);
    for (int32_t k = 0; k < z->h->n_ops; k++) {
        pb_op *op = z->op + k;
        if (op->out->scalar) op->fn(op->out->p, *op->a, *op->b, *op->c, 1);
    }
}

static int pb_next_rows(pb_micro *row) {
    pb_row_walk *walk = (pb_row_walk *)row->from[0];
    pb_nest *z = walk->z;
    for (int32_t j = walk->outer; j >= 0; j--) {
        const int more = walk->pos[j] + 1 < z->e[j];
        const int64_t step = more ? 1 : -walk->pos[j];
        walk->pos[j] += step;
        for (int32_t k = 0; k < z->h->n_operands; k++) z->x[k].at += step * z->x[k].s[j];
        if (!more) continue;
        walk->begin = 0, row->q = (char *)(intptr_t)(walk->outer < z->d - 2 ? z->e[z->d - 2] : 1);
        if (walk->has_scalars) pb_begin_row(walk);
        pb_aim_window(walk);
        return 1;
    }
    return 0;
}

/* --- the list -------------------------------------------------------------------------------------------------------------- */

/* Where a row's reduction stands in pb_row_steps_*. */
static int pb_which_step(const pb_out *out) { return out->w[0] == PB_R_sum ? 0 : out->w[0] == PB_R_max ? 1 : 2; }

static const pb_any_fn *pb_row_step(const pb_row_walk *walk, const pb_out *out) {
    return walk->wide ? pb_row_steps_f64[pb_which_step(out)] : pb_row_steps_f32[pb_which_step(out)];
}

/* Slot `held` is in the accumulator: outputs take it. Returns whether one stored it. */
static int pb_list_outs(pb_row_walk *walk, int32_t held, pb_micro **m) {
    pb_nest *z = walk->z;
    int stored = 0;
    for (int32_t k = 0; k < z->h->n_out; k++) {
        pb_out *out = z->out + k;
        if (out->w[1] != held) continue;
        if (out->w[0] == PB_R_store) {
            z->slots[held].from = (char **)&out->x->at, stored = 1;
            *(*m)++ = (pb_micro){.fn = walk->wide ? (pb_any_fn)pb_strip_store_f64 : (pb_any_fn)pb_strip_store_f32,
                                 .from = {z->slots[held].from, NULL}, .moves = 1};
        } else {
            *(*m)++ = (pb_micro){.fn = pb_row_step(walk, out)[0], .p = out->acc};
        }
    }
    return stored;
}

/* The operations of a strip, and what becomes of them. */
static pb_micro *pb_list_strip(pb_row_walk *walk, pb_micro *m) {
    pb_nest *z = walk->z;
    const int32_t n_in = z->h->n_in, n_ops = z->h->n_ops;
    int32_t held = -1; /* the slot in the accumulator */
    uint16_t uses[n_in + n_ops + 1];
    if (n_ops == 0 && z->h->n_out == 1 && z->out->w[0] != PB_R_store) { /* a loop of its own */
        *m++ = (pb_micro){.fn = pb_row_step(walk, z->out)[2], .p = z->out->acc, .from = {NULL, z->slots[z->out->w[1]].from}, .moves = 2};
        return m;
    }
    memset(uses, 0, sizeof uses);
    for (int32_t k = 0; k < n_ops; k++)
        for (int32_t i = 0; i < z->op[k].w[3]; i++) uses[z->op[k].w[4 + i]]++;
    for (int32_t k = 0; k < n_in; k++) {
        char **from = z->slots[k].from;
        int taken = 0;
        for (int32_t j = 0; j < z->h->n_out; j++) taken |= z->out[j].w[1] == k;
        if (!taken) continue;
        *m++ = (pb_micro){.fn = walk->wide ? (pb_any_fn)pb_strip_load_f64 : (pb_any_fn)pb_strip_load_f32, .from = {from, NULL},
                          .moves = 1};
        pb_list_outs(walk, k, &m);
        z->slots[k].from = from, held = k;
    }
    for (int32_t k = 0; k < n_ops; k++) {
        if (z->op[k].out->scalar) continue;
        m = pb_list_op(z, k, held, m);
        held = n_in + k;
        int32_t next = k + 1, at_once = 0;
        while (next < n_ops && z->op[next].out->scalar) next++;
        if (next < n_ops) at_once = (z->op[next].w[4] == held) + (z->op[next].w[3] == 2 && z->op[next].w[5] == held);
        if (pb_list_outs(walk, held, &m) || uses[held] <= (at_once == 1)) continue;
        *m++ = (pb_micro){.fn = walk->wide ? (pb_any_fn)pb_strip_store_f64 : (pb_any_fn)pb_strip_store_f32,
                          .from = {z->slots[held].from, NULL}};
        walk->has_scratch = 1;
    }
    return m;
}

/* What ends the strip goes to the next one itself. */
static void pb_close_loop(const pb_row_walk *walk, pb_micro *last) {
    if (last->fn == (pb_any_fn)pb_strip_store_f32) last->fn = (pb_any_fn)pb_strip_store_loop_f32;
    if (last->fn == (pb_any_fn)pb_strip_store_f64) last->fn = (pb_any_fn)pb_strip_store_loop_f64;
    for (int32_t k = 0; k < 3; k++) {
        const pb_any_fn *steps = walk->wide ? pb_row_steps_f64[k] : pb_row_steps_f32[k];
        if (last->fn == steps[0]) last->fn = steps[1];
    }
}

/* The whole list, addresses apart. */
static void pb_list_rows(pb_row_walk *walk, pb_micro *first, int64_t strips) {
    const pb_nest *z = walk->z;
    const int32_t t = z->d - 1;
    pb_micro *m = pb_list_strip(walk, first);
    int has_windows = walk->has_scratch;
    pb_close_loop(walk, m - 1);
    walk->window = m;
    *m++ = (pb_micro){.fn = walk->wide ? (pb_any_fn)pb_strip_window_f64 : (pb_any_fn)pb_strip_window_f32, .p = (char *)first,
                      .from = {(char **)walk, NULL}};
    for (int32_t k = 0; k < z->h->n_out; k++) {
        pb_out *out = z->out + k;
        if (out->w[0] == PB_R_store) continue;
        has_windows |= out->w[0] == PB_R_sum && walk->wide;
        *m++ = (pb_micro){.fn = pb_row_step(walk, out)[3], .p = out->acc, .from = {NULL, (char **)&out->x->at}};
    }
    const int64_t length = strips * PB_STRIP_BYTES;
    walk->window->moves = has_windows && walk->bytes >= length + PB_STRIP_BYTES;
    walk->length = walk->window->moves ? length : walk->bytes;
    walk->row = m;
    *m = (pb_micro){.fn = walk->wide ? (pb_any_fn)pb_strip_row_f64 : (pb_any_fn)pb_strip_row_f32, .p = (char *)first,
                    .from = {(char **)walk, NULL}, .q = (char *)(intptr_t)1};
    walk->outer = t - 1;
    if (t == 0 || walk->window->moves || walk->has_scalars) return;
    walk->outer = t - 2, m->q = (char *)(intptr_t)z->e[t - 1];
    for (pb_micro *x = first; x < m; x++) /* each operand's step along the axis that `row` walks */
        for (int32_t i = 0; x != walk->window && i < 2; i++)
            for (int32_t k = 0; x->from[i] && k < z->h->n_operands; k++)
                if (x->from[i] == (char **)&z->x[k].at) x->step[i] = z->x[k].s[t - 1];
}

/* --- entry ------------------------------------------------------------------------------------------------------------------ */

/* Whether this is a nest for lists of rows, by its flags, extents, strides and places. */
static int pb_fits_rows(const pb_nest *z) {
    const pb_nest_head *h = z->h;
    const int32_t t = z->d - 1;
    if (!(h->flags & PB_NEST_ROWS) || z->e[t] * h->scratch_item < PB_STRIP_BYTES || h->n_scratch > 32) return 0;
    if ((h->flags & PB_NEST_STREAM) && z->d == 1) return 0; /* one stencil over all of it */
    int is_reduced = 0, is_apart = 1;
    for (int32_t j = 0; j < t; j++) is_reduced |= z->red[j];
    if (is_reduced || (h->reduced && !z->red[t])) return 0;
    for (int32_t k = 0; k < h->n_operands; k++)
        if (z->x[k].s[t] != z->x[k].item && z->x[k].s[t] != 0) return 0;
    for (int32_t k = 0; k < h->n_out; k++) {
        const int32_t *w = z->out[k].w;
        if (w[0] != PB_R_store) continue;
        if (z->out[k].x->s[t] == 0) return 0;
        int is_input = 0;
        for (int32_t j = 0; j < h->n_in; j++) is_input |= z->in[j].x && z->in[j].x->at == z->out[k].x->at;
        if (is_input && !w[7]) return 0; /* read once more after it was overwritten */
        is_apart &= !is_input;
    }
    return is_apart || z->e[t] * h->scratch_item % PB_STRIP_BYTES == 0;
}

/* Run a nest that pb_fits_rows: 0, or -1: an output takes a value that does not move along the row, nothing was done. */
static int pb_nest_rows(pb_nest *z) {
    const pb_nest_head *h = z->h;
    const int32_t t = z->d - 1;
    int64_t pos[z->d], strips = PB_WINDOW_STRIPS;
    union { pb_held_f32 f32; pb_held_f64 f64; } held[h->n_out + 1];
    pb_micro micro[2 * (h->n_ops + h->n_out) + h->n_in + 2];
    pb_row_walk walk = {.z = z, .bytes = z->e[t] * h->scratch_item, .pos = pos, .wide = h->scratch_item == 8};
    pb_pool pool = {.at = z->stack};
    for (int32_t k = 0; k < h->n_operands; k++) z->x[k].form = z->x[k].s[t] ? PB_FORM_FLAT : PB_FORM_SCALAR;
    while (h->n_scratch * ((strips + 1) * PB_STRIP_BYTES + 192) > PB_SCRATCH_BYTES) strips /= 2;
    pb_bind_slots(z, &pool, t, (strips + 1) * PB_STRIP_BYTES / h->scratch_item, 1);
    for (int32_t k = 0; k < h->n_out; k++) {
        pb_out *out = z->out + k;
        if (z->slots[out->w[1]].scalar) return -1;
        out->acc = (char *)(held + k);
        if (out->w[0] != PB_R_store) pb_begin_held(&walk, out);
    }
    for (int32_t k = 0; k < h->n_ops; k++) walk.has_scalars |= z->op[k].out->scalar;
    for (int32_t j = 0; j < z->d; j++) pos[j] = 0;
    pb_list_rows(&walk, micro, strips);
    if (walk.has_scalars) pb_begin_row(&walk);
    pb_aim_window(&walk);
    if (walk.wide) pb_strip_run_f64(micro, 0);
    else pb_strip_run_f32(micro, 0);
    return 0;
}
#endif
