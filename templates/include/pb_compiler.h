/* What GCC and Clang spell differently: hints for the loop that follows, functions that stay apart, and such that never do. */
#ifndef PB_COMPILER_H
#define PB_COMPILER_H
#define PB_PRAGMA(words) _Pragma(#words)
#define PB_INLINE static inline __attribute__((always_inline, unused))
#ifdef __clang__
#define PB_VECTOR PB_PRAGMA(clang loop vectorize(assume_safety)) /* no iteration reads what another one writes */
#define PB_UNROLL(n) PB_PRAGMA(clang loop unroll_count(n))
#define PB_ROLLED PB_PRAGMA(clang loop unroll(disable))
#define PB_APART __attribute__((noinline)) /* it makes no clones */
#else
#define PB_VECTOR PB_PRAGMA(GCC ivdep)
#define PB_UNROLL(n) PB_PRAGMA(GCC unroll n)
#define PB_ROLLED PB_PRAGMA(GCC unroll 1)
#define PB_APART __attribute__((noinline, noclone))
#endif
#endif
