/* What the host's operators are made of, beyond C's own operators and <math.h>. */
#ifndef HOST_KERNELS_H
#define HOST_KERNELS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* ONNX QuantizeLinear: x / scale, rounded with halves to even, plus the zero point, saturated. */
static inline int32_t quantised(float x, float scale, int32_t zero_point, int32_t low, int32_t high)
{
    float q = nearbyintf(x / scale), least = (float)(low - zero_point);
    float most = (float)(high - zero_point);
    if (!(q > least))
        return low;
    return q < most ? (int32_t)q + zero_point : high;
}

/* A float as an integer: towards zero, saturated. NaN becomes the lowest. */
static inline int64_t truncated(double x, int64_t low, int64_t high)
{
    if (!(x > (double)low))
        return low;
    return x < (double)high ? (int64_t)x : high;
}

/* ONNX Round: halves to even. The signs of zeros are kept. */
static inline double rounded(double x)
{
    return nearbyint(x);
}

/* 1 / (1 + exp(-x)), without overflow. */
static inline double logistic(double x)
{
    double e = exp(x < 0 ? x : -x);
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

/* log(1 + exp(x)), without overflow. */
static inline double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

#endif
