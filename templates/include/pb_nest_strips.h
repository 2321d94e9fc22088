/* Runs of cheap operations of a nest as lists for the accumulator machine of pb_strip.h.
 *
 * A run goes from an operation that pb_strips has to the last such one of the same dtype before something else that works on
 * whole tiles; operations on single scalars stand in between and are done first. It runs in place of its last member.
 * A member's result goes on in the accumulator; it is stored, in its slot, when anything but the next member reads it. Lists find
 * operands that move with the tile in the walk itself (`from` of a slot).
 * What is left of a tile after its last whole strip goes operation by operation, as tiles without runs do.
 */
#ifndef PB_NEST_STRIPS_H
#define PB_NEST_STRIPS_H
#include "pb_nest_types.h"
#include "pb_strip.h"

/* How often each slot is read. */
static void pb_count_uses(const pb_nest *z, uint16_t *uses) {
    const pb_nest_head *h = z->h;
    memset(uses, 0, (size_t)(h->n_in + h->n_ops) * sizeof *uses);
    for (int32_t k = 0; k < h->n_ops; k++) {
        const int32_t *w = z->op[k].w;
        for (int32_t i = 0; i < w[3]; i++) uses[w[4 + i]]++;
        for (int32_t i = 0; w[0] == 1 && i < w[10]; i++) uses[w[13 + h->n_axes + 3 * i]]++;
    }
    for (int32_t k = 0; k < h->n_out; k++) {
        const int32_t *w = z->out[k].w;
        uses[w[1]]++;
        if (w[6] >= 0) uses[w[6]]++;
        for (int32_t i = 0; i < w[9]; i++) uses[w[10 + h->n_axes + 3 * i]]++;
    }
}

/* Whether a slot's values lie in a view: their address goes on from window to window. Buffers begin anew. */
static int pb_is_viewed(const pb_slot *slot) { return !slot->scalar && slot->from != &slot->p && slot->from != &slot->v; }

/* A list's entry: its function, and where its operands' addresses stand. What is NULL stays as p or q are set. */
PB_INLINE void pb_put_entry(pb_micro *m, pb_any_fn fn, char **first, char **second, int64_t moves) {
    *m = (pb_micro){.fn = fn, .from = {first, second}, .moves = moves};
}

/* Where an operand stands: the accumulator, memory, or a single value. */
enum { PB_AT_HELD, PB_AT_MEMORY, PB_AT_SCALAR };
static int pb_operand_at(const pb_nest *z, int32_t slot, int32_t held) {
    return slot == held ? PB_AT_HELD : z->slots[slot].scalar ? PB_AT_SCALAR : PB_AT_MEMORY;
}

/* select(c, a, b), one of them held; c is no single value. */
static pb_micro *pb_list_select(const pb_nest *z, const int32_t *w, const pb_any_fn *forms, int32_t held, pb_micro *m) {
    const int32_t c = w[4], a = w[5], b = w[6];
    const int at_a = a == b && a == held && c != held ? PB_AT_HELD : pb_operand_at(z, a, c == held ? -1 : held);
    const int at_b = pb_operand_at(z, b, c == held || at_a == PB_AT_HELD ? -1 : held);
    char **first = z->slots[c].from, **second;
    int32_t form;
    int64_t moves;
    if (c == held) {
        form = PB_FORM_AMM + 2 * (at_a == PB_AT_SCALAR) + (at_b == PB_AT_SCALAR);
        first = z->slots[a].from, second = z->slots[b].from;
        moves = pb_is_viewed(z->slots + a) | pb_is_viewed(z->slots + b) << 1;
    } else {
        const int32_t other = at_a == PB_AT_HELD ? b : a;
        form = (at_a == PB_AT_HELD ? PB_FORM_MAM : PB_FORM_MMA) + z->slots[other].scalar, second = z->slots[other].from;
        moves = pb_is_viewed(z->slots + c) | pb_is_viewed(z->slots + other) << 1;
    }
    pb_put_entry(m, forms[form], first, second, moves);
    return m + 1;
}

/* The forms of operation k; of truth values there are two, for lanes of either width. */
static const pb_any_fn *pb_strip_forms(const pb_nest *z, int32_t k) {
    const int32_t *w = z->op[k].w, n = w[3];
    if (w[2] != PB_N_bool || z->slots[w[3 + n]].dtype != PB_N_bool || z->h->scratch_item != 8) return pb_strips[w[1]];
    return pb_strips[w[1]] + (n == 1 ? PB_FORMS1 : n == 2 ? PB_FORMS2 : PB_FORMS3);
}

/* The entry of operation k while slot `held` is in the accumulator (-1: none is). */
static pb_micro *pb_list_op(const pb_nest *z, int32_t k, int32_t held, pb_micro *m) {
    const int32_t *w = z->op[k].w, a = w[4], b = w[3] == 2 ? w[5] : -1;
    const pb_any_fn *forms = pb_strip_forms(z, k);
    if (w[3] == 3) return pb_list_select(z, w, forms, held, m);
    const pb_slot *x = z->slots + a, *y = b >= 0 ? z->slots + b : NULL;
    char **pa = held == a && a != b ? NULL : x->from, **pb = !y || (held == b && a != b) ? NULL : y->from;
    int32_t form;
    if (b < 0) form = held == a ? PB_FORM_A : PB_FORM_M;
    else if (a == b) form = PB_FORM_MM;
    else if (held == a) form = y->scalar ? PB_FORM_AS : PB_FORM_AM;
    else if (held == b) form = x->scalar ? PB_FORM_SA : PB_FORM_MA;
    else form = x->scalar ? PB_FORM_SM : y->scalar ? PB_FORM_MS : PB_FORM_MM;
    const int moves = pb_is_viewed(x) | (y && pb_is_viewed(y)) << 1;
    pb_put_entry(m, forms[form], pa, pb, moves);
    return m + 1;
}

/* The list of a run: its members are the operations first..last with `in_run`. Returns where the next list may begin. */
static pb_micro *pb_list_run(pb_nest *z, int32_t first, int32_t last, const uint16_t *uses, pb_micro *m) {
    const int32_t n_in = z->h->n_in;
    const int wide = pb_native_bytes[z->op[last].out->dtype] == 8;
    int32_t held = -1; /* the slot in the accumulator */
    z->op[last].list = m;
    for (int32_t k = first; k <= last;) {
        m = pb_list_op(z, k, held, m);
        held = n_in + k;
        for (k++; k <= last && !z->op[k].in_run; k++) {}
        int32_t next = 0;
        if (k <= last) next = (z->op[k].w[4] == held) + (z->op[k].w[3] == 2 && z->op[k].w[5] == held);
        if (uses[held] > (next == 1))
            pb_put_entry(m++, wide ? (pb_any_fn)pb_strip_store_f64 : (pb_any_fn)pb_strip_store_f32, z->slots[held].from, NULL, 0);
    }
    z->op[last].n_list = (int32_t)(m - z->op[last].list);
    pb_put_entry(m, wide ? (pb_any_fn)pb_strip_end_f64 : (pb_any_fn)pb_strip_end_f32, NULL, NULL, 0);
    m++->p = (char *)z->op[last].list;
    return m;
}

/* Find the runs in tiles of n elements; `micro` has room for three entries an operation. Slots and outputs are bound. */
static void pb_bind_strips(pb_nest *z, pb_micro *micro, int64_t n) {
    const pb_nest_head *h = z->h;
    uint16_t uses[h->n_in + h->n_ops + 1];
    int counted = 0;
    int32_t first = -1, last = -1, count = 0;
    for (int32_t k = 0; k < h->n_ops; k++) z->op[k].in_run = 0, z->op[k].list = NULL;
    if (n * h->scratch_item < PB_STRIP_BYTES) return;
    for (int32_t k = 0; k <= h->n_ops; k++) {
        pb_op *op = z->op + k;
        if (k < h->n_ops && op->w[0] == 0 && op->out->scalar) continue;
        int fits = k < h->n_ops && op->w[0] == 0 && pb_strips[op->w[1]] != NULL && op->out->dtype != PB_N_bool;
        for (int32_t i = 0; fits && i < op->w[3]; i++) fits = z->slots[op->w[4 + i]].dtype == op->out->dtype;
        if (count && !(fits && op->out->dtype == z->op[last].out->dtype)) { /* the run ends here */
            if (count > 1) {
                if (!counted) pb_count_uses(z, uses), counted = 1;
                micro = pb_list_run(z, first, last, uses, micro);
            } else {
                z->op[first].in_run = 0;
            }
            count = 0;
        }
        if (fits) {
            if (!count) first = k;
            op->in_run = 1, last = k, count++;
        }
    }
}

/* Addresses of this tile, and how far to go; returns the list. */
static pb_micro *pb_aim_strips(pb_op *op, int64_t whole) {
    pb_micro *m = op->list;
    for (const pb_micro *end = m + op->n_list; m < end; m++) {
        if (m->from[0]) m->p = *m->from[0];
        if (m->from[1]) m->q = *m->from[1];
    }
    m->q = (char *)(intptr_t)whole;
    return op->list;
}

/* A run over a tile of n elements, in place of its last member. */
static void pb_run_strips(const pb_nest *z, pb_op *op, int64_t n) {
    const int wide = pb_native_bytes[op->out->dtype] == 8;
    const int64_t bytes = n * (wide ? 8 : 4), whole = bytes - bytes % PB_STRIP_BYTES;
    if (whole) {
        pb_aim_strips(op, whole);
        if (wide) pb_strip_run_f64(op->list, 0);
        else pb_strip_run_f32(op->list, 0);
    }
    if (whole == bytes) return;
    const int64_t rest = n - whole / (wide ? 8 : 4);
    pb_op *member = op;
    while (member > z->op && (member[-1].in_run || member[-1].out->scalar) && !member[-1].list) member--;
    for (; member <= op; member++)
        if (member->in_run)
            member->fn(member->out->p + whole, *member->a + (member->variant & 2 ? 0 : whole),
                       *member->b + (member->variant & 1 ? 0 : whole), *member->c, rest);
}
#endif
