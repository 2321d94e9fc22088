/* Nests of nothing but cheap operations, row after row in one list for the accumulator machine of pb_strip.h.
 *
 * A row is the innermost axis, contiguous in every operand that moves along it, at least a strip long; all of it is reduced or
 * nothing is, or the axes outside of it are: then rows are folded into one row of memory for each reduction, some columns at a
 * time (pb_nest_columns), and float sums go on in f64 after some rows (pb_row_reductions.h). Rows are cut into windows where
 * something has to be done between strips: results that are read again lie in scratch no longer than a window, and what f64 lanes
 * have added up is taken into a sum that knows what it lost. Elements that are left after the last whole strip are done by one
 * more strip that ends with the row, so no output may lie where it would change what that strip reads.
 *
 * Lanes have one width: floats, integers and truth values of it go together (pb_strip.h). A comparison that one choice reads, or one
 * `and` or `or`, is made there, so that it need not be stored (pb_is_late). A sum under a mask adds zeros where it does not hold.
 *
 * The list ends in `window`, which asks pb_next_window for what is next; registers hold the value in flight from the first
 * element of the nest to the last, and between two rows there are a few dozen instructions.
 */
#ifndef PB_NEST_ROWS_H
#define PB_NEST_ROWS_H
#include "pb_nest_tile.h"
#include "pb_row_reductions.h"

/* --- from window to window, from row to row ---------------------------------------------------------------------------------- */

/* Addresses of the list's operands in the window that begins now. */
static void pb_aim_window(const pb_row_walk *walk) {
    const int64_t left = walk->bytes - walk->begin;
    const int64_t length = left < walk->length + PB_STRIP_BYTES ? left : walk->length; /* so the last one has a whole strip */
    const int64_t rest = length % PB_STRIP_BYTES, begun = walk->begin / (walk->wide ? 8 : 4);
    for (pb_micro *m = (pb_micro *)walk->row->p; m < walk->row; m++) {
        if (m == walk->window) continue;
        if (m->from[0]) m->p = *m->from[0] + (m->moves & PB_MOVES_BYTES ? begun : m->moves & 1 ? walk->begin : 0);
        if (m->from[1]) m->q = *m->from[1] + (m->moves & 2 ? walk->begin : 0);
    }
    walk->window->q = (char *)(intptr_t)(length - rest), walk->window->from[1] = (char **)(intptr_t)rest;
}

static int64_t pb_next_window(pb_micro *window) {
    pb_row_walk *walk = (pb_row_walk *)window->from[0];
    const pb_nest *z = walk->z;
    walk->begin += (intptr_t)window->q + (intptr_t)window->from[1];
    if (walk->begin >= walk->bytes) return -1;
    for (int32_t k = 0; walk->wide && walk->folded < 0 && k < z->h->n_out; k++) {
        if (z->out[k].w[0] != PB_R_sum || z->out[k].w[2] != PB_N_f64) continue;
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
    if (walk->folded >= 0) pb_fold_row(walk);
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

/* Between the accumulator and memory: an operand's own, or lanes of scratch. */
static void pb_list_copy(const pb_row_walk *walk, int is_store, int32_t dtype, char **from, int moves, pb_micro **m) {
    static const pb_any_fn copies[2][2][2] = { /* store, bytes, wide */
        {{(pb_any_fn)pb_strip_load_f32, (pb_any_fn)pb_strip_load_f64}, {(pb_any_fn)pb_strip_load_b32, (pb_any_fn)pb_strip_load_b64}},
        {{(pb_any_fn)pb_strip_store_f32, (pb_any_fn)pb_strip_store_f64}, {(pb_any_fn)pb_strip_store_b32, (pb_any_fn)pb_strip_store_b64}}};
    const int is_bytes = moves && dtype == PB_N_bool;
    pb_put_entry((*m)++, copies[is_store][is_bytes][walk->wide], from, NULL, is_bytes ? PB_MOVES_BYTES : moves);
}

/* An entry that reduces, or that ends the row. */
static void pb_list_held(const pb_row_walk *walk, const pb_out *out, int step, pb_micro **m) {
    if (walk->folded >= 0) return pb_put_entry((*m)++, pb_row_steps(walk, out)[step], (char **)&out->acc, NULL, 1);
    pb_put_entry(*m, pb_row_steps(walk, out)[step], NULL, step == 3 ? (char **)&out->x->at : NULL, 0);
    (*m)++->p = out->acc;
}

static void pb_list_load(const pb_row_walk *walk, int32_t slot, pb_micro **m) {
    const pb_slot *from = walk->z->slots + slot;
    pb_list_copy(walk, 0, from->dtype, from->from, pb_is_viewed(from), m);
}

/* Slot `held` is in the accumulator: outputs take it. Returns whether one stored it where operations can read it. */
static int pb_list_outs(pb_row_walk *walk, int32_t held, pb_micro **m) {
    pb_nest *z = walk->z;
    int stored = 0;
    for (int32_t k = 0; k < z->h->n_out; k++) {
        pb_out *out = z->out + k;
        if (out->w[1] != held || out->w[6] >= 0) continue;
        if (out->w[0] != PB_R_store) {
            pb_list_held(walk, out, 0, m);
            continue;
        }
        pb_list_copy(walk, 1, out->w[2], (char **)&out->x->at, 1, m);
        if (out->w[2] != PB_N_bool) z->slots[held].from = (char **)&out->x->at, stored = 1;
    }
    return stored;
}

/* A comparison, and the one that gives the same with its operands in the other order. */
#define PB_SWAPPED(T)                                                                                                   \
    {PB_ROW_lt_##T, PB_ROW_gt_##T}, {PB_ROW_gt_##T, PB_ROW_lt_##T}, {PB_ROW_le_##T, PB_ROW_ge_##T}, {PB_ROW_ge_##T, PB_ROW_le_##T}

/* How many operands of operation k a slot is. */
PB_INLINE int pb_times_read(const pb_nest *z, int32_t k, int32_t slot) {
    const int32_t *w = z->op[k].w;
    return (w[4] == slot) + (w[3] > 1 && w[5] == slot) + (w[3] > 2 && w[6] == slot);
}

/* What is known of a nest while its list is made. */
typedef struct {
    uint16_t *uses; /* how often each slot is read, by operations and by sums under a mask */
    uint8_t *late;  /* the operations that are comparisons made where they are read */
    uint8_t *taken; /* the slots that outputs take from the accumulator */
    int32_t n_late, masked; /* masked: the first output that is a sum under a mask, or -1 */
} pb_list_facts;

/* Whether the slot in the accumulator has to be stored: something else than what comes next reads it, or that one twice. */
PB_INLINE int pb_is_read_later(const pb_nest *z, const pb_list_facts *facts, int32_t held, int32_t next) {
    int at_once = 0;
    if (facts->uses[held] == 0) return 0;
    while (next < z->h->n_ops && (z->op[next].out->scalar || facts->late[next])) next++;
    if (next < z->h->n_ops) at_once = pb_times_read(z, next, held);
    else if (facts->masked >= 0) at_once = (z->out[facts->masked].w[1] == held) + (z->out[facts->masked].w[6] == held);
    return facts->uses[held] > (at_once == 1);
}

/* Whether something reads a slot at operation k or after it: till then its buffer is not used again. */
static int pb_is_kept(const pb_nest *z, int32_t slot, int32_t k) {
    int n = 0;
    for (; k < z->h->n_ops; k++) n += pb_times_read(z, k, slot);
    for (int32_t j = 0; j < z->h->n_out; j++) n += z->out[j].w[1] == slot || z->out[j].w[6] == slot;
    return n > 0;
}

/* Whether operation k is a comparison that is made where it is read: by one choice, or joined with another answer. Its operands lie
 * in memory till then, and do not come along in the accumulator. */
static int pb_is_late(const pb_nest *z, const uint16_t *uses, int32_t k) {
    const int32_t *w = z->op[k].w, slot = z->h->n_in + k;
    int32_t reader = k + 1;
    if (z->op[k].out->scalar || uses[slot] != 1) return 0;
    for (int32_t j = 0; j < z->h->n_out; j++)
        if (z->out[j].w[1] == slot || z->out[j].w[6] == slot) return 0;
    while (reader < z->h->n_ops && !pb_times_read(z, reader, slot)) reader++;
    if (reader == z->h->n_ops) return 0;
    for (int32_t i = 4; i < 6; i++)
        if (w[i] >= z->h->n_in && !z->slots[w[i]].scalar && (uses[w[i]] < 2 || !pb_is_kept(z, w[i], reader))) return 0;
    const int32_t *r = z->op[reader].w;
    if (r[3] == 3) return r[2] != PB_N_bool && r[4] == slot && !(z->slots[r[5]].scalar && z->slots[r[6]].scalar);
    return (r[1] == PB_ROW_and || r[1] == PB_ROW_or) && !z->slots[r[4] == slot ? r[5] : r[4]].scalar;
}

/* Operation k, which reads the comparison `late`; the accumulator holds one of its other operands. */
static pb_micro *pb_list_when(const pb_nest *z, int32_t k, int32_t late, int32_t held, pb_micro *m) {
    static const int32_t swapped[][2] = {PB_SWAPPED(i32), PB_SWAPPED(i64), PB_SWAPPED(f32), PB_SWAPPED(f64)};
    const int32_t *w = z->op[k].w, *c = z->op[late - z->h->n_in].w;
    int32_t row = c[1], x = c[4], y = c[5], other = -1, form;
    if (z->slots[x].scalar) { /* the single value comes second */
        x = c[5], y = c[4];
        for (size_t i = 0; i < sizeof swapped / sizeof *swapped; i++)
            if (swapped[i][0] == c[1]) row = swapped[i][1];
    }
    if (w[3] == 3) {
        other = w[5] == held ? w[6] : w[5];
        form = (w[5] == held ? PB_WHEN_A_M : PB_WHEN_B_M) + z->slots[other].scalar;
    } else {
        form = w[1] == PB_ROW_and ? PB_WHEN_AND : PB_WHEN_OR;
    }
    pb_put_entry(m, pb_strip_whens[row][form + z->slots[y].scalar * PB_WHEN_MS], z->slots[x].from, z->slots[y].from,
                 pb_is_viewed(z->slots + x) | pb_is_viewed(z->slots + y) << 1);
    if (other >= 0) pb_put_entry(++m, NULL, z->slots[other].from, NULL, pb_is_viewed(z->slots + other));
    return m + 1;
}

/* The operations of a strip, and what becomes of them. */
static pb_micro *pb_list_strip(pb_row_walk *walk, pb_micro *m) {
    pb_nest *z = walk->z;
    const int32_t n_in = z->h->n_in, n_ops = z->h->n_ops;
    int32_t held = -1; /* the slot in the accumulator */
    uint16_t uses[n_in + n_ops + 1];
    uint8_t late[n_ops + 1], taken[n_in + n_ops + 1];
    pb_list_facts facts = {.uses = uses, .late = late, .taken = taken, .masked = -1};
    if (n_ops == 0 && z->h->n_out == 1 && z->out->w[0] != PB_R_store && z->out->w[6] < 0 && walk->folded < 0 && pb_row_steps(walk, z->out)[2]) {
        pb_put_entry(m, pb_row_steps(walk, z->out)[2], NULL, z->slots[z->out->w[1]].from, 2);
        m->p = z->out->acc;
        return m + 1; /* a loop of its own */
    }
    for (int32_t k = 0; k < n_in + n_ops; k++) uses[k] = taken[k] = 0;
    for (int32_t k = 0; k < n_ops; k++)
        for (int32_t i = 0; i < z->op[k].w[3]; i++) uses[z->op[k].w[4 + i]]++;
    for (int32_t k = z->h->n_out - 1; k >= 0; k--) {
        if (z->out[k].w[6] >= 0) facts.masked = k, uses[z->out[k].w[1]]++, uses[z->out[k].w[6]]++;
        else taken[z->out[k].w[1]] = 1;
    }
    for (int32_t k = 0; k < n_ops; k++) {
        late[k] = pb_strip_whens[z->op[k].w[1]] && pb_is_late(z, uses, k);
        facts.n_late += late[k];
    }
    int32_t last = -1;
    for (int32_t k = 0; k < n_in; k++)
        if (taken[k] || (z->slots[k].dtype == PB_N_bool && !z->slots[k].scalar)) last = k;
    for (int32_t k = 0; k <= last; k++) {
        pb_slot *slot = z->slots + k;
        char **from = slot->from;
        const int is_bytes = slot->dtype == PB_N_bool && !slot->scalar;
        if (!taken[k] && !is_bytes) continue;
        pb_list_copy(walk, 0, slot->dtype, from, 1, &m);
        held = k;
        if (is_bytes) { /* operations read lanes */
            slot->from = &slot->v;
            if (k != last || pb_is_read_later(z, &facts, held, 0)) pb_list_copy(walk, 1, slot->dtype, slot->from, 0, &m), walk->has_scratch = 1;
        }
        if (taken[k]) pb_list_outs(walk, k, &m);
        if (!is_bytes) slot->from = from;
    }
    for (int32_t k = 0; k < n_ops; k++) {
        const int32_t *w = z->op[k].w;
        int32_t when = -1;
        if (z->op[k].out->scalar || late[k]) continue;
        for (int32_t i = 4 + w[3] - 1; facts.n_late && i >= 4; i--)
            if (w[i] >= n_in && late[w[i] - n_in]) when = i;
        if (when >= 0) {
            int32_t side = w[3] == 3 ? w[6] : when == 4 ? w[5] : w[4]; /* what the accumulator has to hold */
            if (w[3] == 3 && (w[5] == held || z->slots[side].scalar)) side = w[5];
            if (side >= n_in && late[side - n_in]) m = pb_list_op(z, side - n_in, held, m);
            else if (side != held) pb_list_load(walk, side, &m);
            m = pb_list_when(z, k, w[when], side, m);
        } else {
            if (w[3] == 3 && !pb_times_read(z, k, held)) pb_list_load(walk, held = w[4], &m);
            m = pb_list_op(z, k, held, m);
        }
        held = n_in + k;
        if ((taken[held] && pb_list_outs(walk, held, &m)) || !pb_is_read_later(z, &facts, held, k + 1)) continue;
        pb_list_copy(walk, 1, z->slots[held].dtype, z->slots[held].from, 0, &m);
        walk->has_scratch = 1;
    }
    for (int32_t k = facts.masked; k >= 0 && k < z->h->n_out; k++) { /* sums under a mask: zeros elsewhere */
        static char zero[8], *at = zero;
        pb_out *out = z->out + k;
        const int32_t value = out->w[1], mask = out->w[6];
        if (mask < 0) continue;
        const int has_value = held == value;
        if (!has_value && held != mask) pb_list_load(walk, mask, &m);
        const pb_slot *other = z->slots + (has_value ? mask : value);
        const pb_any_fn *forms = pb_strips[walk->wide ? PB_ROW_select_f64 : PB_ROW_select_f32];
        pb_put_entry(m++, forms[has_value ? PB_FORM_MAS : PB_FORM_AMS], other->from, &at, pb_is_viewed(other));
        pb_list_held(walk, out, 0, &m);
        held = -1;
    }
    return m;
}

/* What ends the strip goes to the next one itself. */
static void pb_close_loop(const pb_row_walk *walk, pb_micro *last) {
    static const pb_any_fn stores[][2] = {
        {(pb_any_fn)pb_strip_store_f32, (pb_any_fn)pb_strip_store_loop_f32}, {(pb_any_fn)pb_strip_store_f64, (pb_any_fn)pb_strip_store_loop_f64},
        {(pb_any_fn)pb_strip_store_b32, (pb_any_fn)pb_strip_store_loop_b32}, {(pb_any_fn)pb_strip_store_b64, (pb_any_fn)pb_strip_store_loop_b64}};
    for (int32_t k = 0; k < 4; k++)
        if (last->fn == stores[k][0]) last->fn = stores[k][1];
    for (int32_t k = 0; k < walk->z->h->n_out; k++) {
        if (walk->z->out[k].w[0] == PB_R_store) continue;
        const pb_any_fn *steps = pb_row_steps(walk, walk->z->out + k);
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
    pb_put_entry(m, walk->wide ? (pb_any_fn)pb_strip_window_f64 : (pb_any_fn)pb_strip_window_f32, (char **)walk, NULL, 0);
    m++->p = (char *)first;
    for (int32_t k = 0; k < z->h->n_out; k++) {
        pb_out *out = z->out + k;
        if (out->w[0] == PB_R_store || walk->folded >= 0) continue;
        has_windows |= out->w[0] == PB_R_sum && out->w[2] == PB_N_f64;
        pb_list_held(walk, out, 3, &m);
    }
    const int64_t length = strips * PB_STRIP_BYTES;
    walk->window->moves = has_windows && walk->bytes >= length + PB_STRIP_BYTES;
    walk->length = walk->window->moves ? length : walk->bytes;
    walk->row = m;
    pb_put_entry(m, walk->wide ? (pb_any_fn)pb_strip_row_f64 : (pb_any_fn)pb_strip_row_f32, (char **)walk, NULL, 0);
    m->p = (char *)first, m->q = (char *)(intptr_t)1;
    walk->outer = t - 1;
    if (t == 0 || walk->window->moves || walk->has_scalars || walk->folded >= 0) return;
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
    if (!(h->flags & PB_NEST_ROWS) || z->e[t] * h->scratch_item < PB_STRIP_BYTES || h->n_scratch + h->n_in > 32) return 0;
    if ((h->flags & PB_NEST_STREAM) && z->d == 1) return 0; /* one stencil over all of it */
    int is_reduced = 0, is_apart = 1, is_broken = 0;
    for (int32_t j = 0; j < t; j++) is_broken |= is_reduced & !z->red[j], is_reduced |= z->red[j];
    /* what is nothing but reduced, tiles serve better */
    if (is_reduced ? z->red[t] || is_broken || h->n_ops == 0 || z->e[t] * h->scratch_item < PB_FOLDED_STRIPS * PB_STRIP_BYTES : h->reduced && !z->red[t]) return 0;
    for (int32_t k = 0; k < h->n_operands; k++)
        if (z->x[k].own_tile && z->x[k].s[t] != z->x[k].item && z->x[k].s[t] != 0) return 0;
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
    const int32_t most = 3 * (h->n_ops + h->n_in) + 4 * h->n_out + 2;
    pb_micro micro[most] __attribute__((aligned(64)));
    pb_row_walk walk = {.z = z, .bytes = z->e[t] * h->scratch_item, .pos = pos, .folded = -1, .wide = h->scratch_item == 8};
    pb_pool pool = {.at = z->stack};
    for (int32_t j = t - 1; j >= 0 && z->red[j]; j--) walk.folded = j;
    char columns[walk.folded < 0 ? 1 : PB_FOLDED_BYTES + h->n_out * 512] __attribute__((aligned(64)));
    pb_pool folded = {.at = columns};
    for (int32_t k = 0; k < h->n_operands; k++) z->x[k].form = z->x[k].s[t] ? PB_FORM_FLAT : PB_FORM_SCALAR;
    int32_t n_scratch = h->n_scratch;
    for (int32_t k = 0; k < h->n_in; k++) n_scratch += z->in[k].w[1] == PB_N_bool;
    while (n_scratch * ((strips + 1) * PB_STRIP_BYTES + 192) > PB_SCRATCH_BYTES) strips /= 2;
    pb_bind_slots(z, &pool, t, (strips + 1) * PB_STRIP_BYTES / h->scratch_item, 1, 1);
    for (int32_t k = 0; k < h->n_in; k++)
        if (z->slots[k].dtype == PB_N_bool && !z->slots[k].scalar) z->slots[k].v = pb_take(&pool, (strips + 1) * PB_STRIP_BYTES);
    for (int32_t k = 0; k < h->n_ops; k++)
        if (z->op[k].w[3] == 3 && !z->op[k].out->scalar && z->slots[z->op[k].w[4]].scalar) return -1; /* one condition for a row */
    for (int32_t k = 0; k < h->n_out; k++) {
        pb_out *out = z->out + k;
        if (z->slots[out->w[1]].scalar || (out->w[6] >= 0 && z->slots[out->w[6]].scalar)) return -1;
        out->acc = (char *)(held + k);
        if (out->w[0] == PB_R_store) continue;
        if (walk.folded < 0) {
            pb_begin_held(out);
            continue;
        }
        out->acc = pb_take(&folded, walk.bytes);
        if (pb_has_total(out)) out->raw = pb_take(&folded, z->e[t] * 8);
        pb_begin_columns(&walk, out, z->e[t]);
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

/* Columns at a time, so that what is folded fits; no piece is shorter than a strip. */
static int pb_nest_columns(pb_nest *z) {
    const int32_t t = z->d - 1, item = z->h->scratch_item;
    const int64_t whole = z->e[t], strip = PB_STRIP_BYTES / item;
    int64_t bytes = 0;
    for (int32_t k = 0; k < z->h->n_out; k++) bytes += z->out[k].w[0] == PB_R_store ? 0 : item + (pb_has_total(z->out + k) ? 8 : 0);
    const int64_t most = PB_FOLDED_BYTES / bytes / strip * strip;
    int status = 0;
    if (most < PB_FOLDED_STRIPS * strip) return -1;
    for (int64_t at = 0; at < whole && status == 0;) {
        const int64_t left = whole - at, now = left <= most ? left : left - most < strip ? most - strip : most;
        z->e[t] = now;
        status = pb_nest_rows(z);
        for (int32_t k = 0; k < z->h->n_operands; k++) z->x[k].at += now * z->x[k].s[t];
        at += now;
        if (status == 0 && at < whole) continue;
        for (int32_t k = 0; k < z->h->n_operands; k++) z->x[k].at -= at * z->x[k].s[t];
        break;
    }
    z->e[t] = whole;
    return status;
}
#endif
