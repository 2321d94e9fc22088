/* The tape machine: register code (vm/plan/code.py) flattened to 32-bit words and run without the GIL.
 *
 * A pb_tape is the plan that `bind` and `run` receive. The registers are presets of the tape's image: whoever calls copies
 * the image (Tape.image, n_regs words of 8 bytes) into frame->r first, then fills the registers of the leaves, then
 * calls pb_tape_bind, allocates results and arena (frame->r[0].p), and calls pb_tape_run. Both may be called again on the
 * same registers: a body writes every register before it reads it, apart from presets, leaves and what bind made, which it
 * leaves alone.
 *
 * Words of an instruction (registers by number, -1 for none; targets are word indexes from the start of the code):
 *   add..or, add_f32..le_f64 dst a b      select dst c a b        guard a number          scalar row dst a b c (casts too)
 *   load memory dst base offset                       store memory src base offset
 *   move dst src              trap code cond position alloc output ptr        jump target
 *   jump_if_zero cond target  exit
 *   for_begin var start stop step hidden target    three registers from `hidden`: trips left, step, value
 *   for_next var hidden target                     target: begin: after the loop, next: its first instruction
 *   nest (pb_nest.h)
 *   call site: of the plan's call-outs, through frame->call
 *   contract words dtype n_batch act pack m n k batch... a b c bias [residual], each operand: base offset strides... (bias
 *            base -1: none; act + PB_TAPE_RESIDUAL: a residual follows)
 */
#ifndef PB_TAPE_H
#define PB_TAPE_H
#include "pb_nest.h"
#include "pb_product.h"
#include <time.h>

typedef struct {
    const int32_t *bind, *run;
    int64_t n_regs;
    int64_t *times; /* NULL, or three for each word of `run`: runs of the nest or product there, nanoseconds, least */
} pb_tape;

static int64_t pb_floor_div(int64_t a, int64_t b) { return pb_floordiv_i64(a, b); }

static char *pb_address(const pb_reg *r, int32_t base, int32_t offset) {
    return r[base].p + (offset >= 0 ? r[offset].i : 0);
}

enum { PB_TAPE_RESIDUAL = 256 };
static const int32_t *pb_run_contract(const pb_frame *f, const int32_t *w) {
    const pb_reg *r = f->r;
    int32_t words = w[0], n_batch = w[2], pack = w[4];
    int64_t extents[n_batch + 1], strides[3][n_batch + 1];
    pb_product_args p = {.dtype = w[1], .nbatch = n_batch, .act = w[3] & ~PB_TAPE_RESIDUAL, .m = r[w[5]].i, .n = r[w[6]].i, .k = r[w[7]].i,
                         .batch = extents, .a_bs = strides[0], .b_bs = strides[1], .c_bs = strides[2]};
    const int32_t *at = w + 8;
    for (int32_t j = 0; j < n_batch; j++) extents[j] = r[*at++].i;
    for (int32_t k = 0; k < 3; k++) {
        char *base = pb_address(r, at[0], at[1]);
        for (int32_t j = 0; j < n_batch; j++) strides[k][j] = r[at[2 + j]].i;
        int64_t rows = r[at[2 + n_batch]].i, cols = r[at[3 + n_batch]].i;
        if (k == 0) p.a = base, p.a_rs = rows, p.a_cs = cols;
        else if (k == 1) p.b = base, p.b_rs = rows, p.b_cs = cols;
        else p.c = base, p.c_rs = rows, p.c_cs = cols;
        at += 4 + n_batch;
    }
    if (at[0] >= 0) p.bias = pb_address(r, at[0], at[1]), p.bias_s = r[at[2]].i;
    at += 3;
    int64_t residual_bs[n_batch + 1];
    if (w[3] & PB_TAPE_RESIDUAL) {
        p.residual = pb_address(r, at[0], at[1]), p.residual_bs = residual_bs;
        for (int32_t j = 0; j < n_batch; j++) residual_bs[j] = r[at[2 + j]].i;
        p.residual_rs = r[at[2 + n_batch]].i, p.residual_cs = r[at[3 + n_batch]].i;
    }
    if (pack >= 0 && f->packs && f->packs[pack]) p.has_pack = 1, p.pack = f->packs[pack];
    pb_product(&p);
    return w + words;
}

static int64_t pb_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static void pb_note_time(int64_t *place, int64_t start) {
    const int64_t elapsed = pb_clock() - start;
    if (place[0]++ == 0 || elapsed < place[2]) place[2] = elapsed;
    place[1] += elapsed;
}

/* Trips of range(start, stop, step); step != 0. */
static int64_t pb_trips(int64_t start, int64_t stop, int64_t step) {
    if (step > 0) return start < stop ? (int64_t)(((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step) + 1 : 0;
    return start > stop ? (int64_t)(((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step)) + 1 : 0;
}

/* 0 at `exit`; a failed guard's number; PB_TAPE_TRAPPED with the frame's trap set. */
enum { PB_TAPE_TRAPPED = -1 };
static inline __attribute__((always_inline)) int pb_tape_walk(const int32_t *code, pb_frame *f, int64_t *times) {
    pb_reg *r = f->r;
    const int32_t *w = code;
#define PB_INT(name, value)                                                                                             \
    case PB_T_##name: {                                                                                                 \
        int64_t a = r[w[2]].i, b = r[w[3]].i;                                                                           \
        r[w[1]].i = (value), w += 4;                                                                                    \
        break;                                                                                                          \
    }
#define PB_FLOAT_OP(name, T, field, into, value)                                                                        \
    case PB_T_##name##_##T: {                                                                                           \
        pb_##T a = r[w[2]].field, b = r[w[3]].field;                                                                    \
        r[w[1]].into = (value), w += 4;                                                                                 \
        break;                                                                                                          \
    }
#define PB_FLOATS(T, field)                                                                                             \
    PB_FLOAT_OP(add, T, field, field, a + b) PB_FLOAT_OP(sub, T, field, field, a - b)                                   \
    PB_FLOAT_OP(mul, T, field, field, a * b) PB_FLOAT_OP(div, T, field, field, a / b)                                    \
    PB_FLOAT_OP(eq, T, field, i, a == b) PB_FLOAT_OP(lt, T, field, i, a < b) PB_FLOAT_OP(le, T, field, i, a <= b)
    for (;;) {
        switch (w[0]) {
            PB_INT(add, a + b)
            PB_INT(sub, a - b)
            PB_INT(mul, a * b)
            PB_INT(floordiv, pb_floor_div(a, b))
            PB_INT(mod, pb_mod_i64(a, b))
            PB_INT(min, a < b ? a : b)
            PB_INT(max, a > b ? a : b)
            PB_INT(eq, a == b)
            PB_INT(ne, a != b)
            PB_INT(lt, a < b)
            PB_INT(le, a <= b)
            PB_INT(and, a & b)
            PB_INT(or, a | b)
            PB_FLOATS(f32, f)
            PB_FLOATS(f64, d)
        case PB_T_select: r[w[1]] = r[w[2]].i ? r[w[3]] : r[w[4]], w += 5; break;
        case PB_T_guard:
            if (!r[w[1]].i) return w[2];
            w += 3;
            break;
        case PB_T_scalar: pb_scalars[w[1]](r + w[2], r + w[3], r + w[4], r + w[5]), w += 6; break;
        case PB_T_load: pb_load_register(r + w[2], w[1], pb_address(r, w[3], w[4])), w += 5; break;
        case PB_T_store: pb_store_register(r + w[2], w[1], pb_address(r, w[3], w[4])), w += 5; break;
        case PB_T_move: r[w[1]] = r[w[2]], w += 3; break;
        case PB_T_trap:
            if (w[2] < 0 || r[w[2]].i) return pb_trap(f, w[1], w[3]), PB_TAPE_TRAPPED;
            w += 4;
            break;
        case PB_T_alloc: {
            char *p = f->alloc(f, w[1]);
            if (!p) return pb_trap(f, PB_TRAP_MEMORY, -1), PB_TAPE_TRAPPED;
            r[w[2]].p = p, w += 3;
            break;
        }
        case PB_T_jump: w = code + w[1]; break;
        case PB_T_jump_if_zero: w = r[w[1]].i ? w + 3 : code + w[2]; break;
        case PB_T_for_begin: {
            int64_t start = r[w[2]].i, step = r[w[4]].i, trips = pb_trips(start, r[w[3]].i, step);
            if (trips == 0) {
                w = code + w[6];
                break;
            }
            r[w[5]].i = trips, r[w[5] + 1].i = step, r[w[5] + 2].i = start, r[w[1]].i = start;
            w += 7;
            break;
        }
        case PB_T_for_next: {
            pb_reg *hidden = r + w[2];
            if (--hidden[0].i == 0) {
                w += 4;
                break;
            }
            r[w[1]].i = hidden[2].i += hidden[1].i;
            w = code + w[3];
            break;
        }
        case PB_T_nest: {
            int64_t start = times ? pb_clock() : 0;
            if (pb_nest_run(f, w + 1)) return PB_TAPE_TRAPPED;
            if (times) pb_note_time(times + 3 * (w - code), start);
            w += 1 + w[1];
            break;
        }
        case PB_T_contract: {
            int64_t start = times ? pb_clock() : 0, *place = times + 3 * (w - code);
            w = pb_run_contract(f, w + 1);
            if (times) pb_note_time(place, start);
            break;
        }
        case PB_T_call: {
            int64_t start = times ? pb_clock() : 0;
            if (f->call(f, w[1])) return PB_TAPE_TRAPPED;
            if (times) pb_note_time(times + 3 * (w - code), start);
            w += 2;
            break;
        }
        case PB_T_exit: return 0;
        default: return pb_trap(f, PB_TRAP_INTERPRET, -1), PB_TAPE_TRAPPED; /* no such instruction: a damaged tape */
        }
    }
#undef PB_INT
#undef PB_FLOATS
#undef PB_FLOAT_OP
}

static int pb_tape_loop(const int32_t *code, pb_frame *f) { return pb_tape_walk(code, f, NULL); }
/* The same with times: a copy of the loop, so that the other one is as fast as it was. */
static __attribute__((noinline)) int pb_tape_loop_timed(const int32_t *code, pb_frame *f, int64_t *times) {
    return pb_tape_walk(code, f, times);
}

static int pb_tape_bind(const void *plan, pb_frame *frame) { return pb_tape_loop(((const pb_tape *)plan)->bind, frame); }
static int pb_tape_run(const void *plan, pb_frame *frame) {
    const pb_tape *tape = plan;
    if (__builtin_expect(tape->times != NULL, 0)) return pb_tape_loop_timed(tape->run, frame, tape->times) != 0;
    return pb_tape_loop(tape->run, frame) != 0;
}
#endif
