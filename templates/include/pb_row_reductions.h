/* What lists of rows (pb_nest_rows.h) reduce: what is held of a row while its strips go by, and how it ends; and columns, where the
 * axes outside of the rows are reduced: rows are folded into one row of memory for each reduction.
 */
#ifndef PB_ROW_REDUCTIONS_H
#define PB_ROW_REDUCTIONS_H
#include "pb_nest_bind.h"

enum {
    PB_WINDOW_STRIPS = 16,
    PB_MOVES_BYTES = 4 /* of pb_micro.moves: p does, over truth values of a byte each */
};

typedef struct {
    pb_nest *z;
    pb_micro *window, *row; /* of the list */
    int64_t bytes, begin;   /* of a row; where the window begins in it */
    int64_t length;         /* of a window, whole strips */
    int64_t *pos;           /* on the outer axes */
    int32_t outer;          /* the innermost of those that pb_next_rows walks; `row` itself does what is inside of it */
    int32_t folded;         /* the outermost of the reduced axes, all that are outside of the rows; -1: rows are reduced, or nothing is */
    int32_t in_group;       /* rows that were folded since sums were added to their totals */
    int64_t groups;         /* how often they were */
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

/* Of integers and truth values: the lanes of one register meet. fn, memory: of single elements. */
#define PB_ROW_WHOLE(name, T, I, M, fn, memory, identity)                                                               \
    PB_STRIP_FORM(end_##name, T, M)                                                                                     \
        pb_vlanes_##I all;                                                                                              \
        memcpy(&all, ((pb_held_##M *)m->p)->best, sizeof all);                                                          \
        for (int w = PB_V_##I / 2; w > 0; w /= 2)                                                                       \
            for (int i = 0; i < w; i++) all.i[i] = fn(all.i[i], all.i[i + w]);                                          \
        *(pb_##memory *)m->q = (pb_##memory)PB_ROW_MADE_##memory(all.i[0]);                                             \
        all.v = pb_v_fill_##I(identity);                                                                                \
        memcpy(((pb_held_##M *)m->p)->best, &all, sizeof all);                                                          \
    PB_STRIP_NEXT(M)
#define PB_ROW_MADE_bool(x) ((x) != 0)
#define PB_ROW_MADE_i32(x) (x)
#define PB_ROW_MADE_i64(x) (x)
#define PB_OR(a, b) ((a) | (b))
#define PB_AND(a, b) ((a) & (b))
#define PB_ROW_WHOLES(T, M, MIN, MAX)                                                                                   \
    PB_ROW_WHOLE(sum, T, T, M, pb_add_##T, T, 0) PB_ROW_WHOLE(max, T, T, M, pb_maximum_##T, T, MIN)                     \
    PB_ROW_WHOLE(min, T, T, M, pb_minimum_##T, T, MAX)                                                                  \
    static const pb_any_fn pb_row_steps_##T[3][4] = {PB_ROW_WHOLE_STEPS(sum, T), PB_ROW_WHOLE_STEPS(max, T),            \
                                                     PB_ROW_WHOLE_STEPS(min, T)};
#define PB_ROW_TRUTHS(B, I, M)                                                                                          \
    PB_ROW_WHOLE(any, B, I, M, PB_OR, bool, 0) PB_ROW_WHOLE(all, B, I, M, PB_AND, bool, -1)                             \
    static const pb_any_fn pb_row_steps_##B[2][4] = {PB_ROW_WHOLE_STEPS(any, B), PB_ROW_WHOLE_STEPS(all, B)};
#define PB_ROW_WHOLE_STEPS(name, T)                                                                                     \
    {(pb_any_fn)pb_strip_##name##_##T, (pb_any_fn)pb_strip_##name##_loop_##T, NULL, (pb_any_fn)pb_strip_end_##name##_##T}
PB_ROW_WHOLES(i32, f32, INT32_MIN, INT32_MAX)
PB_ROW_WHOLES(i64, f64, INT64_MIN, INT64_MAX)
PB_ROW_TRUTHS(b32, i32, f32)
PB_ROW_TRUTHS(b64, i64, f64)

/* What an output that reduces is made with: a strip; the same, and to the next strip at once; and where rows are reduced, a row by
 * itself, or NULL; the row's end. */
static const pb_any_fn *pb_row_steps(const pb_row_walk *walk, const pb_out *out) {
    const int32_t how = out->w[0], which = how == PB_R_sum || how == PB_R_any ? 0 : how == PB_R_max || how == PB_R_all ? 1 : 2;
    if (walk->folded >= 0) {
        switch (out->w[2]) {
        case PB_N_f32: return pb_folds_f32[which];
        case PB_N_f64: return pb_folds_f64[which];
        case PB_N_i32: return pb_folds_i32[which];
        case PB_N_i64: return pb_folds_i64[which];
        default: return walk->wide ? pb_folds_b64[which] : pb_folds_b32[which];
        }
    }
    switch (out->w[2]) {
    case PB_N_f32: return pb_row_steps_f32[which];
    case PB_N_f64: return pb_row_steps_f64[which];
    case PB_N_i32: return pb_row_steps_i32[which];
    case PB_N_i64: return pb_row_steps_i64[which];
    default: return walk->wide ? pb_row_steps_b64[which] : pb_row_steps_b32[which];
    }
}

static void pb_begin_held(pb_out *out) {
    const int32_t how = out->w[0];
    switch (out->w[2]) {
    case PB_N_f32: pb_begin_held_f32((pb_held_f32 *)out->acc, how); break;
    case PB_N_f64: pb_begin_held_f64((pb_held_f64 *)out->acc, how); break;
    case PB_N_i64:
        *(pb_v_i64 *)((pb_held_f64 *)out->acc)->best = pb_v_fill_i64(how == PB_R_sum ? 0 : how == PB_R_max ? INT64_MIN : INT64_MAX);
        break;
    case PB_N_i32:
        *(pb_v_i32 *)((pb_held_f32 *)out->acc)->best = pb_v_fill_i32(how == PB_R_sum ? 0 : how == PB_R_max ? INT32_MIN : INT32_MAX);
        break;
    default: *(pb_v_i32 *)((pb_held_f32 *)out->acc)->best = pb_v_fill_i32(-(how == PB_R_all));
    }
}

/* --- columns ---------------------------------------------------------------------------------------------------------------- */

enum {
    PB_FOLDED_ROWS = 8,      /* that a float sum adds to its total at once */
    PB_FOLDED_BYTES = 24576, /* for columns that are under way */
    PB_FOLDED_STRIPS = 4     /* of a row at least: reductions of tiles serve short ones */
};

/* A float sum has a total beside what it is folded into, in f64, to which some rows are added at once. */
static int pb_has_total(const pb_out *out) { return out->w[0] == PB_R_sum && (out->w[2] == PB_N_f32 || out->w[2] == PB_N_f64); }

/* How the columns begin: at the identity, of sums -0. */
static void pb_begin_columns(const pb_row_walk *walk, const pb_out *out, int64_t n) {
    const int32_t how = out->w[0], dtype = out->w[2];
    if (dtype == PB_N_bool) {
        memset(out->acc, how == PB_R_all ? -1 : 0, (size_t)(n * (walk->wide ? 8 : 4)));
    } else if (how != PB_R_sum) {
        pb_fill_identity(how, dtype, out->acc, n);
    } else if (dtype == PB_N_f32) {
        pb_f32 *x = (pb_f32 *)out->acc;
        PB_VECTOR for (int64_t k = 0; k < n; k++) x[k] = -0.0f;
    } else if (dtype == PB_N_f64) {
        pb_f64 *x = (pb_f64 *)out->acc;
        PB_VECTOR for (int64_t k = 0; k < n; k++) x[k] = -0.0;
    } else {
        memset(out->acc, 0, (size_t)(n * pb_native_bytes[dtype]));
    }
}

/* What some rows have added up, into the totals; they begin anew. */
#define PB_ADD_COLUMNS(T)                                                                                               \
    static void pb_add_columns_##T(const pb_out *out, int64_t n, int is_first) {                                        \
        pb_f64 *restrict total = (pb_f64 *)out->raw;                                                                    \
        pb_##T *restrict x = (pb_##T *)out->acc;                                                                        \
        if (is_first) PB_VECTOR for (int64_t k = 0; k < n; k++) total[k] = x[k], x[k] = (pb_##T)-0.0;                   \
        else PB_VECTOR for (int64_t k = 0; k < n; k++) total[k] += x[k], x[k] = (pb_##T)-0.0;                           \
    }                                                                                                                   \
    static void pb_total_columns_##T(const pb_out *out, int64_t n) {                                                    \
        const pb_f64 *restrict total = (const pb_f64 *)out->raw;                                                        \
        pb_##T *restrict x = (pb_##T *)out->acc;                                                                        \
        PB_VECTOR for (int64_t k = 0; k < n; k++) x[k] = (pb_##T)(total[k] + x[k]);                                     \
    }
PB_ADD_COLUMNS(f32) PB_ADD_COLUMNS(f64)

/* The columns are whole: to where they belong, and anew. */
static void pb_end_columns(const pb_row_walk *walk, pb_out *out, int64_t n) {
    char *x = out->acc;
    if (pb_has_total(out) && walk->groups) {
        if (out->w[2] == PB_N_f32) pb_total_columns_f32(out, n);
        else pb_total_columns_f64(out, n);
    } else if (out->w[2] == PB_N_bool) {
        for (int64_t k = 0; k < n; k++) x[k] = walk->wide ? ((const pb_i64 *)x)[k] != 0 : ((const pb_i32 *)x)[k] != 0;
    }
    pb_stores[out->x->memory](pb_here(out->x), x, 1, 0, n, out->x->s[walk->z->d - 1]);
    pb_begin_columns(walk, out, n);
}

/* After a row. */
static void pb_fold_row(pb_row_walk *walk) {
    const pb_nest *z = walk->z;
    const int64_t n = z->e[z->d - 1];
    int is_last = 1;
    for (int32_t j = walk->folded; j < z->d - 1; j++) is_last &= walk->pos[j] + 1 == z->e[j];
    if (++walk->in_group < PB_FOLDED_ROWS && !is_last) return;
    walk->in_group = 0;
    for (int32_t k = 0; k < z->h->n_out; k++) {
        pb_out *out = z->out + k;
        if (out->w[0] == PB_R_store) continue;
        if (is_last) pb_end_columns(walk, out, n);
        else if (pb_has_total(out) && out->w[2] == PB_N_f32) pb_add_columns_f32(out, n, walk->groups == 0);
        else if (pb_has_total(out)) pb_add_columns_f64(out, n, walk->groups == 0);
    }
    walk->groups = is_last ? 0 : walk->groups + 1;
}
#endif
