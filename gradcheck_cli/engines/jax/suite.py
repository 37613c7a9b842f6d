"""JAX's public operations at our own samples: JAX has no database of samples."""

import jax
import jax.numpy as jnp
from jax import lax, nn
from jax import scipy as jsp

from gradcheck_cli.engines.kit.suite import Table, TableOperation

_ROWS = {
    "real": """
        jnp.sin jnp.cos jnp.tan jnp.sinh jnp.cosh jnp.tanh jnp.arctan jnp.arcsinh jnp.exp jnp.expm1
        jnp.exp2 jnp.abs jnp.fabs jnp.sign jnp.floor jnp.square jnp.negative jnp.sinc jnp.i0
        jnp.deg2rad jnp.rad2deg jnp.nan_to_num jnp.real jnp.imag jnp.angle jnp.conj jnp.sum jnp.mean
        jnp.prod jnp.max jnp.min jnp.std jnp.var jnp.median jnp.ptp jnp.nanmean jnp.cumsum
        jnp.cumprod jnp.sort jnp.ravel jnp.transpose jnp.fliplr jnp.flipud jnp.gradient lax.erf
        lax.erfc lax.logistic lax.reciprocal lax.cbrt nn.relu nn.relu6 nn.sigmoid nn.softplus
        nn.silu nn.gelu nn.elu nn.selu nn.celu nn.leaky_relu nn.log_sigmoid nn.hard_tanh
        nn.hard_sigmoid nn.hard_silu nn.mish nn.soft_sign nn.squareplus nn.softmax nn.log_softmax
        nn.logsumexp nn.standardize nn.glu nn.logmeanexp nn.sparse_plus jsp.special.expit
        jsp.special.erf jsp.special.erfc jsp.special.log_ndtr jsp.special.ndtr jsp.special.i0e
        jsp.special.i1 jsp.special.i1e jsp.special.logsumexp jsp.stats.norm.pdf
        jsp.stats.norm.logpdf jsp.stats.norm.cdf jsp.stats.norm.logcdf jsp.stats.norm.sf
        jsp.stats.cauchy.logpdf jsp.stats.logistic.logpdf jsp.stats.laplace.logpdf
        jsp.stats.logistic.cdf
        lax.integer_pow(a, 3)
        lax.integer_pow(a, -2)
        nn.gelu(a, approximate=False)
        nn.logsumexp(a, axis=1, b=jnp.array([[1.0, 0.5]]))
        jnp.clip(a, -1.0, 1.0)
        jnp.sum(a, axis=1, keepdims=True)
        jnp.mean(a, axis=0)
        jnp.var(a, axis=0, ddof=1)
        jnp.prod(a, axis=0)
        jnp.cumsum(a, axis=1)
        jnp.percentile(a, 40.0, axis=0)
        jnp.diff(a, axis=0)
        jnp.roll(a, 1, axis=0)
        jnp.pad(a, 1, mode="reflect")
        jnp.pad(a, ((1, 0), (0, 2)))
        jnp.tile(a, (2, 1))
        jnp.repeat(a, 2, axis=1)
        jnp.take(a, jnp.array([2, 0, 0]), axis=0)
        jnp.take_along_axis(a, jnp.array([[0], [2], [2]]), axis=0)
        jnp.broadcast_to(a, (2, 3, 2))
        jnp.reshape(a, (2, 3))
        jnp.where(a > 0, a, jnp.exp(a))
        jnp.split(a, 3)
        jnp.rot90(a)
        jnp.ldexp(a, 3)
        jnp.array_split(a, 2)
        lax.cumlogsumexp(a, axis=0)
        lax.cummax(a, axis=0)
        lax.cumprod(a, axis=0, reverse=True)
        lax.top_k(a, 1)
        lax.dynamic_slice(a, (1, 0), (2, 1))
        lax.reduce_window(a, 0.0, lax.add, (2, 1), (1, 1), "VALID")
        lax.associative_scan(jnp.multiply, a)
        lax.map(jnp.sin, a)
        lax.fori_loop(0, 3, lambda i, x: jnp.sin(x), a)
        lax.scan(lambda c, x: (c * x, c + x), a[0], a)
        lax.cond(a[0, 0] > 0, jnp.sin, jnp.cos, a)
        nn.one_hot(jnp.array([0, 2]), 3) @ a
        jax.ops.segment_sum(a, jnp.array([0, 1, 0]), 2)
        jax.ops.segment_max(a, jnp.array([0, 1, 0]), 2)
        jnp.fft.fft(a, axis=0)
        jnp.fft.rfft(a, axis=0)
        jnp.fft.fft2(a)
        jnp.fft.irfft(a, n=5, axis=0)
        """,
    "positive": """
        jnp.log jnp.log2 jnp.log10 jnp.log1p jnp.sqrt jnp.cbrt jnp.reciprocal lax.rsqrt lax.lgamma
        lax.digamma jsp.special.gammaln jsp.special.digamma jsp.special.entr jsp.special.gamma
        jsp.stats.expon.logpdf
        jsp.special.polygamma(1, a)
        jsp.special.multigammaln(a + 2.0, 2)
        jsp.stats.gamma.logpdf(a, 2.0)
        jsp.stats.chi2.logpdf(a, 3.0)
        jsp.stats.poisson.logpmf(2, a)
        """,
    "unit": "jnp.arcsin jnp.arccos jnp.arctanh lax.erf_inv",
    "above_one": "jnp.arccosh",
    "probability": """
        jsp.special.logit jsp.special.ndtri
        jsp.stats.beta.logpdf(a, 2.0, 3.0)
        jsp.stats.bernoulli.logpmf(jnp.array([[0, 1], [1, 1], [0, 0]]), a)
        """,
    "real real": """
        jnp.add jnp.subtract jnp.multiply jnp.divide jnp.maximum jnp.minimum jnp.arctan2 jnp.hypot
        jnp.logaddexp jnp.logaddexp2 jnp.copysign jnp.mod jnp.fmod jnp.fmax jnp.heaviside
        jnp.stack((a, b))
        jnp.concatenate((a, b), axis=1)
        jnp.inner jnp.outer jnp.vdot jnp.kron
        jnp.tensordot(a, b, axes=((0,), (0,)))
        jnp.einsum("ij,kj->ik", a, b)
        lax.dynamic_update_slice(a, b[:2, :1], (1, 1))
        lax.clamp(-1.0, a, 1.0)
        lax.complex(a, b)
        """,
    "positive real": "jnp.power jnp.float_power",
    "positive positive": """
        jsp.special.betaln jsp.special.gammainc jsp.special.gammaincc jsp.special.xlogy
        jsp.special.xlog1py jsp.special.rel_entr jsp.special.kl_div jsp.special.beta
        """,
    "real real scalar": "jnp.interp(a[:, 0], jnp.array([-1.0, 0.5, 2.0]), b[:, 0] * c)",
    "vector": """
        jnp.vander jnp.ediff1d jnp.diag
        jnp.trapezoid(a)
        jnp.linalg.norm(a)
        jnp.linalg.norm(a, ord=3)
        jnp.poly(a)
        """,
    "vector vector": """
        jnp.convolve jnp.correlate jnp.dot jnp.polyval jnp.polymul
        jnp.cross(a[:3], b[:3])
        jsp.signal.convolve(a, b[:2], mode="same")
        jsp.signal.fftconvolve
        """,
    "square": """
        jnp.trace jnp.diagonal jnp.tril jnp.triu jnp.cov jnp.corrcoef jnp.linalg.det jnp.linalg.inv
        jnp.linalg.slogdet jnp.linalg.qr jsp.linalg.expm jsp.linalg.lu jnp.linalg.pinv
        jnp.linalg.matrix_power(a, 3)
        jnp.linalg.svd(a, compute_uv=False)
        jnp.linalg.norm(a, ord="nuc")
        jnp.linalg.norm(a, ord=2)
        """,
    "definite": """
        jnp.linalg.cholesky
        jsp.linalg.cholesky(a + a.T)
        jnp.linalg.eigvalsh(a + a.T)
        jnp.linalg.eigh(a + a.T)[1] ** 2
        """,
    "square wide": "jnp.linalg.lstsq(a, b.T)[0]",
    "definite vector": """
        jnp.linalg.solve(a, b[:3])
        jsp.linalg.cho_solve((jnp.linalg.cholesky(a), True), b[:3])
        jsp.linalg.solve_triangular(a, b[:3], lower=True)
        """,
    "wide square": "jnp.matmul jnp.dot",
    "stack stack": """
        jnp.matmul
        lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,))))
        """,
    "signal kernel1": """
        lax.conv_general_dilated(a, b, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
        """,
    "image kernel2": """
        lax.conv_general_dilated(a, b, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        lax.conv_transpose(a, b, (2, 2), "SAME")
        """,
    "image": """
        lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        jax.image.resize(a, (1, 8, 3, 2), "bilinear")
        jax.image.resize(a, (1, 7, 7, 2), "cubic")
        lax.conv_general_dilated_patches(a, (2, 2), (1, 1), "VALID")
        """,
    "stack stack stack": "nn.dot_product_attention(a[:, :, None], b[:, :, None], c[:, :, None])",
}

_TABLE = Table(_ROWS, {"jax": jax, "jnp": jnp, "jsp": jsp, "lax": lax, "nn": nn})
names = _TABLE.names
samples = _TABLE.samples


class Operation(TableOperation):
    table = _TABLE
