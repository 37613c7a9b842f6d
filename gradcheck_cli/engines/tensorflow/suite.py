"""TensorFlow's public operations at our own samples: TensorFlow has no database of samples."""

import tensorflow as tf

from gradcheck_cli.engines.kit.suite import Table, TableOperation

_ROWS = {
    "real": """
        tf.math.sin tf.math.cos tf.math.tan tf.math.sinh tf.math.cosh tf.math.tanh tf.math.atan
        tf.math.asinh tf.math.exp tf.math.expm1 tf.math.abs tf.math.sign tf.math.floor
        tf.math.square tf.math.negative tf.math.erf tf.math.erfc tf.math.sigmoid tf.math.softplus
        tf.math.log_sigmoid tf.math.bessel_i0 tf.math.bessel_i0e tf.math.bessel_i1
        tf.math.bessel_i1e tf.math.special.fresnel_cos tf.math.special.fresnel_sin
        tf.math.special.dawsn tf.math.reduce_sum tf.math.reduce_mean
        tf.math.reduce_prod tf.math.reduce_max tf.math.reduce_min tf.math.reduce_std
        tf.math.reduce_variance tf.math.reduce_logsumexp tf.math.reduce_euclidean_norm
        tf.math.cumsum tf.math.cumprod tf.math.cumulative_logsumexp tf.math.softsign tf.identity
        tf.transpose tf.sort tf.nn.relu tf.nn.relu6 tf.nn.elu tf.nn.selu tf.nn.gelu tf.nn.silu
        tf.nn.crelu tf.nn.leaky_relu tf.nn.softmax tf.nn.log_softmax tf.nn.l2_loss tf.nn.softplus
        tf.nn.softsign tf.nn.sigmoid tf.nn.tanh tf.math.l2_normalize tf.math.real tf.math.rint
        tf.nn.gelu(a, approximate=True)
        tf.nn.leaky_relu(a, alpha=0.3)
        tf.math.l2_normalize(a, axis=1)
        tf.math.reduce_sum(a, axis=1, keepdims=True)
        tf.math.reduce_prod(a, axis=0)
        tf.math.reduce_max(a, axis=0)
        tf.math.cumsum(a, axis=1, exclusive=True, reverse=True)
        tf.math.cumprod(a, axis=0, exclusive=True)
        tf.math.top_k(a, k=1).values
        tf.math.segment_sum(a, tf.constant([0, 0, 1]))
        tf.math.segment_mean(a, tf.constant([0, 0, 1]))
        tf.math.segment_prod(a, tf.constant([0, 0, 1]))
        tf.math.segment_max(a, tf.constant([0, 0, 1]))
        tf.math.unsorted_segment_sum(a, tf.constant([1, 0, 1]), 2)
        tf.math.unsorted_segment_prod(a, tf.constant([1, 0, 1]), 2)
        tf.math.unsorted_segment_sqrt_n(a, tf.constant([1, 0, 1]), 2)
        tf.clip_by_value(a, -1.0, 1.0)
        tf.clip_by_norm(a, 1.5)
        tf.clip_by_global_norm([a], 1.5)[0]
        tf.reverse(a, axis=[0])
        tf.roll(a, 1, axis=0)
        tf.pad(a, [[1, 0], [0, 2]])
        tf.pad(a, [[1, 1], [1, 1]], mode="REFLECT")
        tf.pad(a, [[1, 1], [1, 1]], mode="SYMMETRIC")
        tf.tile(a, [2, 1])
        tf.repeat(a, 2, axis=1)
        tf.reshape(a, [2, 3])
        tf.broadcast_to(a, [2, 3, 2])
        tf.expand_dims(a, 0)
        tf.squeeze(a[:, :1])
        tf.split(a, 3)
        tf.unstack(a)
        tf.gather(a, [2, 0, 0])
        tf.gather(a, [[1], [0], [1]], axis=1, batch_dims=1)
        tf.gather_nd(a, [[2, 1], [0, 0], [0, 0]])
        tf.boolean_mask(a, [True, False, True])
        tf.where(a > 0, a, tf.exp(a))
        tf.slice(a, [1, 0], [2, 1])
        tf.strided_slice(a, [0, 0], [3, 2], [2, 1])
        tf.cast(a, a.dtype)
        tf.scatter_nd([[3], [1], [3]], a, [4, 2])
        tf.map_fn(tf.sin, a)
        tf.scan(lambda c, x: c * x, a)
        tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.sin(x)), (0, a))[1]
        tf.cond(a[0, 0] > 0, lambda: tf.sin(a), lambda: tf.cos(a))
        tf.nn.moments(a, axes=[0])
        tf.signal.frame(a[:, 0], 2, 1)
        tf.nn.sigmoid_cross_entropy_with_logits(tf.constant([1, 0.3], a.dtype) * tf.ones_like(a), a)
        tf.nn.sparse_softmax_cross_entropy_with_logits(tf.constant([0, 1, 0]), a)
        tf.linalg.band_part(a, 0, 1)
        tf.linalg.norm(a, axis=0)
        tf.linalg.norm(a, ord=1)
        """,
    "positive": """
        tf.math.log tf.math.log1p tf.math.sqrt tf.math.rsqrt tf.math.reciprocal tf.math.lgamma
        tf.math.digamma tf.math.special.expint tf.math.special.bessel_j0 tf.math.special.bessel_j1
        tf.math.special.bessel_k0 tf.math.special.bessel_k1 tf.math.special.bessel_y0
        tf.math.special.bessel_y1 tf.math.lbeta
        tf.math.polygamma(tf.ones_like(a), a)
        tf.math.zeta(a + 2.0, tf.ones_like(a))
        """,
    "unit": "tf.math.asin tf.math.acos tf.math.atanh tf.math.erfinv",
    "above_one": "tf.math.acosh",
    "probability": "tf.math.ndtri tf.math.special.spence",
    "real real": """
        tf.math.add tf.math.subtract tf.math.multiply tf.math.divide tf.math.maximum tf.math.minimum
        tf.math.atan2 tf.math.squared_difference tf.math.divide_no_nan tf.math.multiply_no_nan
        tf.math.floormod tf.math.mod
        tf.math.add_n([a, b])
        tf.concat([a, b], axis=1)
        tf.stack([a, b])
        tf.einsum("ij,kj->ik", a, b)
        tf.tensordot(a, b, axes=[[0], [0]])
        tf.dynamic_stitch([[0, 2, 1], [1, 3, 4]], [a, b])
        tf.tensor_scatter_nd_add(a, [[2], [0]], b[:2])
        tf.tensor_scatter_nd_update(a, [[2], [0]], b[:2])
        tf.tensor_scatter_nd_max(a, [[2], [0]], b[:2])
        tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(a), b)
        """,
    "positive positive": """
        tf.math.igamma tf.math.igammac tf.math.xlogy tf.math.xlog1py tf.math.xdivy
        """,
    "positive positive probability": "tf.math.betainc",
    "positive real": """
        tf.math.pow
        tf.nn.log_poisson_loss(a, b)
        """,
    "real positive": "tf.nn.batch_normalization(a, 0.1, b, 0.2, 1.5, 1e-3)",
    "square": """
        tf.linalg.trace tf.linalg.diag_part tf.linalg.det tf.linalg.inv tf.linalg.expm
        tf.linalg.slogdet tf.linalg.pinv tf.linalg.matrix_transpose tf.linalg.adjoint tf.linalg.qr
        tf.linalg.lu(a)[0]
        tf.linalg.svd(a, compute_uv=False)
        tf.linalg.set_diag(a, a[0])
        """,
    "vector": "tf.linalg.diag tf.linalg.tensor_diag",
    "definite": """
        tf.linalg.cholesky(a + tf.transpose(a))
        tf.linalg.logdet(a + tf.transpose(a))
        tf.linalg.sqrtm
        tf.linalg.eigvalsh(a + tf.transpose(a))
        tf.linalg.eigh(a + tf.transpose(a))[1] ** 2
        """,
    "definite square": """
        tf.linalg.solve tf.linalg.lstsq tf.linalg.triangular_solve
        tf.linalg.cholesky_solve(tf.linalg.cholesky(a + tf.transpose(a)), b)
        """,
    "square vector": "tf.linalg.matvec(a, b[:3])",
    "wide square": "tf.linalg.matmul",
    "stack stack": """
        tf.linalg.matmul
        tf.linalg.matmul(a, b, transpose_a=True)
        tf.linalg.cross
        """,
    "signal kernel1": "tf.nn.conv1d(a, b, 1, 'SAME')",
    "image kernel2": """
        tf.nn.conv2d(a, b, 2, "SAME")
        tf.nn.conv2d(a, b, 1, "VALID", dilations=2)
        tf.nn.atrous_conv2d(a, b, 2, "SAME")
        tf.nn.conv2d_transpose(a, b, [1, 10, 10, 2], 2, "SAME")
        """,
    "image depthwise": """
        tf.nn.depthwise_conv2d(a, b, [1, 1, 1, 1], "SAME")
        tf.nn.dilation2d(a, b[..., 0], [1] * 4, "SAME", "NHWC", [1] * 4)
        tf.nn.erosion2d(a, b[..., 0], [1] * 4, "SAME", "NHWC", [1] * 4)
        """,
    "image depthwise pointwise": "tf.nn.separable_conv2d(a, b, c, [1, 1, 1, 1], 'SAME')",
    "volume kernel3": "tf.nn.conv3d(a, b, [1] * 5, 'VALID')",
    "volume": """
        tf.nn.max_pool3d(a, 2, 2, "VALID")
        tf.nn.avg_pool3d(a, 2, 2, "VALID")
        """,
    "image": """
        tf.nn.max_pool2d(a, 2, 2, "VALID")
        tf.nn.avg_pool2d(a, 2, 1, "SAME")
        tf.nn.fractional_max_pool(a, 1.5, seed=1)[0]
        tf.nn.local_response_normalization(a, depth_radius=1)
        tf.nn.space_to_depth(a[:, :4, :4], 2)
        tf.nn.depth_to_space(tf.concat([a, a], 3), 2)
        tf.image.resize(a, [8, 3])
        tf.image.resize(a, [7, 7], "bicubic")
        tf.image.resize(a, [3, 3], antialias=True)
        tf.image.adjust_contrast(a, 0.7)
        tf.image.flip_left_right(a)
        tf.image.rot90(a)
        tf.image.central_crop(a, 0.6)
        tf.image.total_variation(a)
        tf.image.extract_patches(a, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
        """,
}

_TABLE = Table(_ROWS, {"tf": tf})
names = _TABLE.names
samples = _TABLE.samples


class Operation(TableOperation):
    table = _TABLE
