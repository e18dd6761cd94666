/* Kernels in 32-bit floating point, for the codegen c: plain loops, tensors in row-major order.
 *
 * A window over two dimensions is an int array: kernel, strides, begins of the pads, dilations,
 * each height then width.
 */

enum { KERNEL_H, KERNEL_W, STRIDE_H, STRIDE_W, PAD_H, PAD_W, DILATION_H, DILATION_W, WINDOW };

/* y[n][o][oh][ow] = sum of x[n][c][h][w] * w[o][c / groups][kh][kw], plus bias[o] if there is one. */
static void vtac_conv(float *y, const float *x, const float *weights, const float *bias,
                      const int xs[4], const int ys[4], const int window[WINDOW], int groups,
                      int relu)
{
    int inner = xs[1] / groups, outer = ys[1] / groups, taps = window[KERNEL_H] * window[KERNEL_W];
    for (int n = 0; n < ys[0]; n++)
        for (int o = 0; o < ys[1]; o++)
            for (int i = 0; i < ys[2]; i++)
                for (int j = 0; j < ys[3]; j++) {
                    float sum = bias ? bias[o] : 0.0f;
                    for (int c = 0; c < inner; c++) {
                        int channel = o / outer * inner + c;
                        const float *plane = x + ((long)n * xs[1] + channel) * xs[2] * xs[3];
                        const float *taken = weights + ((long)o * inner + c) * taps;
                        for (int p = 0; p < window[KERNEL_H]; p++) {
                            int h = i * window[STRIDE_H] + p * window[DILATION_H] - window[PAD_H];
                            if (h < 0 || h >= xs[2])
                                continue;
                            for (int q = 0; q < window[KERNEL_W]; q++) {
                                int w =
                                    j * window[STRIDE_W] + q * window[DILATION_W] - window[PAD_W];
                                if (w >= 0 && w < xs[3])
                                    sum += plane[(long)h * xs[3] + w] *
                                           taken[p * window[KERNEL_W] + q];
                            }
                        }
                    }
                    *y++ = relu && sum < 0.0f ? 0.0f : sum;
                }
}

/* The largest element under each window; where all of it lies in the padding, -infinity. */
static void vtac_max_pool(float *y, const float *x, const int xs[4], const int ys[4],
                          const int window[WINDOW])
{
    for (int plane = 0; plane < ys[0] * ys[1]; plane++, x += (long)xs[2] * xs[3])
        for (int i = 0; i < ys[2]; i++)
            for (int j = 0; j < ys[3]; j++) {
                float most = -1.0f / 0.0f;
                for (int p = 0; p < window[KERNEL_H]; p++)
                    for (int q = 0; q < window[KERNEL_W]; q++) {
                        int h = i * window[STRIDE_H] + p * window[DILATION_H] - window[PAD_H];
                        int w = j * window[STRIDE_W] + q * window[DILATION_W] - window[PAD_W];
                        if (h >= 0 && h < xs[2] && w >= 0 && w < xs[3])
                            if (!(x[(long)h * xs[3] + w] <= most))
                                most = x[(long)h * xs[3] + w];
                    }
                *y++ = most;
            }
}

/* y[rows][columns] = alpha * a * b + beta * c. as, bs: the distance of elements along the rows and
 * columns of the product's operands, so that either may be transposed; cs: those of c, perhaps 0.
 */
static void vtac_gemm(float *y, const float *a, const float *b, const float *c, int rows,
                      int columns, int inner, const int as[2], const int bs[2], const int cs[2],
                      float alpha, float beta, int relu)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            float sum = 0.0f;
            for (int k = 0; k < inner; k++)
                sum += a[(long)i * as[0] + (long)k * as[1]] * b[(long)k * bs[0] + (long)j * bs[1]];
            sum = alpha * sum + (c ? beta * c[(long)i * cs[0] + (long)j * cs[1]] : 0.0f);
            *y++ = relu && sum < 0.0f ? 0.0f : sum;
        }
}

static void vtac_relu(float *y, const float *x, long count)
{
    for (long i = 0; i < count; i++)
        y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static void vtac_add(float *y, const float *a, const float *b, long count)
{
    for (long i = 0; i < count; i++)
        y[i] = a[i] + b[i];
}

static void vtac_copy(float *y, const float *x, long count)
{
    for (long i = 0; i < count; i++)
        y[i] = x[i];
}
