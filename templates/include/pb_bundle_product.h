/* The matrix product as bundles link it: compiled once a CPU level (PB_BUNDLE_PRODUCT_BODY), called from every bundle. */
#ifndef PB_BUNDLE_PRODUCT_H
#define PB_BUNDLE_PRODUCT_H
#ifndef PB_BUNDLE_PRODUCT_BODY
#define PB_PRODUCT_ARGS_ONLY
#endif
#include "pb_product.h"

void pb_bundle_product(const pb_product_args *args);
int64_t pb_bundle_pack_bytes(int32_t dtype, int64_t k, int64_t n);
void pb_bundle_pack(int32_t dtype, int64_t k, int64_t n, const char *src, int64_t row_stride_bytes,
                    int64_t col_stride_bytes, void *dst);

#ifdef PB_BUNDLE_PRODUCT_BODY
void pb_bundle_product(const pb_product_args *args) { pb_product(args); }
int64_t pb_bundle_pack_bytes(int32_t dtype, int64_t k, int64_t n) { return pb_pack_bytes(dtype, k, n); }
void pb_bundle_pack(int32_t dtype, int64_t k, int64_t n, const char *src, int64_t row_stride_bytes,
                    int64_t col_stride_bytes, void *dst) {
    pb_pack(dtype, k, n, src, row_stride_bytes, col_stride_bytes, dst);
}
#endif
#endif
