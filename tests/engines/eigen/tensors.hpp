// Apart from the others: Eigen's tensors take long to compile.

#pragma once

#include <array>
#include <unsupported/Eigen/CXX11/Tensor>

// Sums over the middle axis, weighted by its index, and by w.
template <typename T, int layout>
Eigen::Tensor<T, 2, layout> sums(const Eigen::Tensor<T, 3, layout>& x, const Eigen::Tensor<T, 2, layout>& w) {
  Eigen::Tensor<T, 2, layout> y(x.dimension(0), x.dimension(2));
  for (int i = 0; i < x.dimension(0); ++i)
    for (int k = 0; k < x.dimension(2); ++k) {
      y(i, k) = T(0);
      for (int j = 0; j < x.dimension(1); ++j) y(i, k) += x(i, j, k) * x(i, j, k) * w(j, k) * T(j + 1);
    }
  return y;
}

template <typename T>
Eigen::Tensor<T, 2> by_column(
    const Eigen::Tensor<T, 3>& x, const Eigen::Tensor<T, 2>& w, const Eigen::Tensor<T, 1>& one) {
  return sums<T, Eigen::ColMajor>(x, w) * one(0);
}

template <typename T>
Eigen::Tensor<T, 2, Eigen::RowMajor> by_row(
    const Eigen::Tensor<T, 3, Eigen::RowMajor>& x,
    const Eigen::Tensor<T, 2, Eigen::RowMajor>& w,
    const std::array<T, 1>& one) {
  return sums<T, Eigen::RowMajor>(x, w) * one[0];
}
