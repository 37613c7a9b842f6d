// What users write: templates over the scalar.

#pragma once

#include <Eigen/Core>
#include <unsupported/Eigen/CXX11/Tensor>

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

template <typename T>
using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

namespace mine {

template <typename T>
T reciprocal_exp(const T& x) {
  return T(1) / exp(x);
}

}  // namespace mine

template <typename T>
Matrix<T> dense(const Matrix<T>& x, const Matrix<T>& w, const Vector<T>& b, const T& t, double scale, bool bend) {
  return ((x * w).rowwise() + b.transpose()).unaryExpr([=](const T& z) -> T {
    return bend ? T(scale * tanh(t * z)) : z;
  });
}

// Sums over the middle axis, weighted by its index.
template <typename T>
Eigen::Tensor<T, 2> slide(const Eigen::Tensor<T, 3>& x) {
  Eigen::Tensor<T, 2> y(x.dimension(0), x.dimension(2));
  for (int i = 0; i < x.dimension(0); ++i)
    for (int k = 0; k < x.dimension(2); ++k) {
      y(i, k) = T(0);
      for (int j = 0; j < x.dimension(1); ++j) y(i, k) += x(i, j, k) * x(i, j, k) * T(j + 1);
    }
  return y;
}

template <typename T>
Vector<T> misfit(const Vector<T>& x) {
  return x.head(2) + x;
}
