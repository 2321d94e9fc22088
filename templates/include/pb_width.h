/* PB_VECTOR_BYTES: how wide a vector register of this CPU level is, in bytes, unless the compiler's command line says. */
#ifndef PB_WIDTH_H
#define PB_WIDTH_H
#ifndef PB_VECTOR_BYTES
#if defined(__AVX512F__)
#define PB_VECTOR_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__)
#define PB_VECTOR_BYTES 32
#else
#define PB_VECTOR_BYTES 16
#endif
#endif
/* Whether registers are that wide: vectors wider than them are made of several, by the compiler, and have no instructions. */
#if PB_VECTOR_BYTES == 16 || (PB_VECTOR_BYTES == 32 && defined(__AVX__)) || (PB_VECTOR_BYTES == 64 && defined(__AVX512F__))
#define PB_VECTORS_ARE_REGISTERS
#endif
#endif
