// Apart from the others: Eigen's tensors take long to compile.

#pragma once

#include <unsupported/Eigen/CXX11/Tensor>

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
