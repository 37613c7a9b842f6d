// The examples as one writes them in C++: templates over the scalar, for Eigen::AutoDiffScalar.

#pragma once

#include <Eigen/Core>

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

template <typename T>
T sigmoid(const T& x) {
  return T(1) / (T(1) + exp(-x));
}

// A dense layer without a bias, with a sine for its activation.
template <typename T>
Matrix<T> sin_dense(const Matrix<T>& x, const Matrix<T>& W) {
  return (x * W).unaryExpr([](const T& z) -> T { return sin(z); });
}

template <typename T>
T reciprocal_exp(const T& x) {
  return T(1) / exp(x);
}

// The same with a derivative of its own, -exp(-x).
template <typename R, int N>
Eigen::AutoDiffScalar<Eigen::Matrix<R, N, 1>> stable_reciprocal_exp(
    const Eigen::AutoDiffScalar<Eigen::Matrix<R, N, 1>>& x) {
  return {R(1) / std::exp(x.value()), -std::exp(-x.value()) * x.derivatives()};
}
