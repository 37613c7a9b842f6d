"""One mistake for each layer, as a person who writes its gradient by hand makes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """A part of a layer with a gradient of its own.

    rule            the functions, in which the gradient is right
    right, wrong    the stretch of `rule` that the mistake changes, before and after
    line, calls     the stretch of the layer that the functions replace, and its replacement
    """

    rule: str
    right: str
    wrong: str
    line: str
    calls: str


MISTAKES = {
    "attention: the scale of the scores is forgotten": Mistake(
        rule="""
            def scores_vjp(upstream, q, k):
                back = upstream / sqrt(3)
                return back @ k, transpose(back, (0, 2, 1)) @ q

            @custom_gradient(scores_vjp)
            def scores_of(q, k):
                return q @ transpose(k, (0, 2, 1)) / sqrt(3)
            """,
        right="back = upstream / sqrt(3)",
        wrong="back = upstream",
        line="scores = q @ transpose(k, (0, 2, 1)) / sqrt(width)",
        calls="scores = scores_of(q, k)",
    ),
    "conv_block: relu lets everything through": Mistake(
        rule="""
            def rectify_vjp(upstream, x):
                return where(x > 0, upstream, 0.0)

            @custom_gradient(rectify_vjp)
            def rectify(x):
                return maximum(x, 0.0)
            """,
        right="where(x > 0, upstream, 0.0)",
        wrong="upstream",
        line="activated = relu(batch_norm(convolved, gain, shift))",
        calls="activated = rectify(batch_norm(convolved, gain, shift))",
    ),
    "gaussian_mixture: the mean is pulled the wrong way": Mistake(
        rule="""
            def standardise_vjp(upstream, x, mean, log_width):
                back = upstream * exp(-log_width)
                z = (x - mean) * exp(-log_width)
                to_x = sum(back, axis=1, keepdims=True)
                return to_x, sum(-back, axis=0), sum(-upstream * z, axis=0)

            @custom_gradient(standardise_vjp)
            def standardise(x, mean, log_width):
                return (x - mean) * exp(-log_width)
            """,
        right="sum(-back, axis=0)",
        wrong="sum(back, axis=0)",
        line="z = (x - mean) * exp(-log_width)",
        calls="z = standardise(x, mean, log_width)",
    ),
    "gru_cell: the update gate forgets the candidate": Mistake(
        rule="""
            def blend_vjp(upstream, update, h, candidate):
                return upstream * (h - candidate), upstream * update, upstream * (1 - update)

            @custom_gradient(blend_vjp)
            def blend(update, h, candidate):
                return update * h + (1 - update) * candidate
            """,
        right="upstream * (h - candidate)",
        wrong="upstream * h",
        line="return update * h + (1 - update) * candidate",
        calls="return blend(update, h, candidate)",
    ),
    "layer_norm: mean and variance are taken for constants": Mistake(
        rule="""
            def standardise_vjp(upstream, x):
                centred = x - mean(x, axis=-1, keepdims=True)
                width = sqrt(mean(centred ** 2, axis=-1, keepdims=True) + 1e-5)
                y = centred / width
                through_mean = mean(upstream, axis=-1, keepdims=True)
                through_width = y * mean(upstream * y, axis=-1, keepdims=True)
                return (upstream - through_mean - through_width) / width

            @custom_gradient(standardise_vjp)
            def standardise(x):
                centred = x - mean(x, axis=-1, keepdims=True)
                return centred / sqrt(mean(centred ** 2, axis=-1, keepdims=True) + 1e-5)
            """,
        right="(upstream - through_mean - through_width) / width",
        wrong="upstream / width",
        line="normalised = centred / sqrt(variance + eps)",
        calls="normalised = standardise(x)",
    ),
    "linear_gaussian: A A' is differentiated on one side": Mistake(
        rule="""
            def gram_vjp(upstream, A):
                return (upstream + transpose(upstream)) @ A

            @custom_gradient(gram_vjp)
            def gram(A):
                return A @ transpose(A)
            """,
        right="(upstream + transpose(upstream)) @ A",
        wrong="upstream @ A",
        line="covariance = A @ transpose(A) + diag(exp(log_variances))",
        calls="covariance = gram(A) + diag(exp(log_variances))",
    ),
    "lstm_cell: tanh' is taken at the wrong place": Mistake(
        rule="""
            def show_vjp(upstream, gate, c):
                shown = tanh(c)
                return upstream * shown, upstream * gate * (1 - shown ** 2)

            @custom_gradient(show_vjp)
            def show(gate, c):
                return gate * tanh(c)
            """,
        right="(1 - shown ** 2)",
        wrong="(1 - c ** 2)",
        line="h = sigmoid(output_gate) * tanh(c)",
        calls="h = show(sigmoid(output_gate), c)",
    ),
    "mlp: the bias is averaged over the batch": Mistake(
        rule="""
            def affine_vjp(upstream, x, W, b):
                return upstream @ transpose(W), transpose(x) @ upstream, sum(upstream, axis=0)

            @custom_gradient(affine_vjp)
            def affine(x, W, b):
                return x @ W + b
            """,
        right="sum(upstream, axis=0)",
        wrong="mean(upstream, axis=0)",
        line="return x @ W + b",
        calls="return affine(x, W, b)",
    ),
    "ode_rk4: the Jacobian is not transposed": Mistake(
        rule="""
            def linear_part_vjp(upstream, state, growth):
                rates = stack([growth[0], -growth[1]])
                to_rates = upstream * state
                return rates * upstream, stack([to_rates[0], -to_rates[1]])

            @custom_gradient(linear_part_vjp)
            def linear_part(state, growth):
                return state * stack([growth[0], -growth[1]])

            def interaction_vjp(upstream, state, encounters):
                signed = stack([-encounters[0], encounters[1]])
                back = sum(upstream * signed)
                met = state[0] * state[1]
                to_encounters = stack([-upstream[0] * met, upstream[1] * met])
                return stack([back * state[1], back * state[0]]), to_encounters

            @custom_gradient(interaction_vjp)
            def interaction(state, encounters):
                return stack([-encounters[0], encounters[1]]) * (state[0] * state[1])
            """,
        right="stack([back * state[1], back * state[0]])",
        wrong="signed * sum(upstream * stack([state[1], state[0]]))",
        line="k1 = slope(state, growth, encounters)",
        calls="k1 = linear_part(state, growth) + interaction(state, encounters)",
    ),
    "softmax_regression: the mean over the batch is forgotten": Mistake(
        rule="""
            def loss_of_vjp(upstream, logits):
                return upstream * (softmax(logits) - one_hot([0, 2, 1, 2, 0, 1], 3)) / 6

            @custom_gradient(loss_of_vjp)
            def loss_of(logits):
                return cross_entropy(logits, [0, 2, 1, 2, 0, 1])
            """,
        right="3)) / 6",
        wrong="3))",
        line="loss = cross_entropy(logits, label) + decay * sum(W ** 2)",
        calls="loss = loss_of(logits) + decay * sum(W ** 2)",
    ),
    "transformer_block: silu is differentiated as its gate": Mistake(
        rule="""
            def swish_vjp(upstream, x):
                gate = sigmoid(x)
                return upstream * (gate + x * gate * (1 - gate))

            @custom_gradient(swish_vjp)
            def swish(x):
                return x * sigmoid(x)
            """,
        right="(gate + x * gate * (1 - gate))",
        wrong="gate",
        line="return silu(x @ W1) @ W2",
        calls="return swish(x @ W1) @ W2",
    ),
    "triplet_loss: both ends of a distance go the same way": Mistake(
        rule="""
            def apart_vjp(upstream, a, b):
                unit = (a - b) / norm(a - b, axis=-1, keepdims=True)
                back = expand_dims(upstream, -1) * unit
                return back, -back

            @custom_gradient(apart_vjp)
            def apart(a, b):
                return norm(a - b, axis=-1)
            """,
        right="return back, -back",
        wrong="return back, back",
        line="return norm(a - b, axis=-1)",
        calls="return apart(a, b)",
    ),
    "vae_loss: half of the logarithm is forgotten": Mistake(
        rule="""
            def sample_vjp(upstream, mu, log_variance, noise):
                width = exp(log_variance / 2)
                return upstream, upstream * noise * width / 2, upstream * width

            @custom_gradient(sample_vjp)
            def sample(mu, log_variance, noise):
                return mu + exp(log_variance / 2) * noise
            """,
        right="upstream * noise * width / 2",
        wrong="upstream * noise * width",
        line="z = mu + exp(log_variance / 2) * noise",
        calls="z = sample(mu, log_variance, noise)",
    ),
}
