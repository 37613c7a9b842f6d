// Eigen's factorisations over its AutoDiffScalar, of stacks of matrices.

#pragma once

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include "gradcheck.hpp"

namespace gradcheck {

template <typename T>
using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The entries of f of each (n, n) matrix.
template <typename T, typename F>
std::vector<T> squares(const std::vector<T>& x, Index n, F f) {
  std::vector<T> made;
  for (std::size_t i = 0; i < x.size(); i += n * n) {
    const Rows<T> y = f(Rows<T>(Eigen::Map<const Rows<T>>(x.data() + i, n, n)));
    made.insert(made.end(), y.data(), y.data() + y.size());
  }
  return made;
}

template <typename T>
std::vector<T> det(const std::vector<T>& x, Index n) {
  return squares(x, n, [](const Rows<T>& a) { return Rows<T>::Constant(1, 1, a.partialPivLu().determinant()); });
}

template <typename T>
std::vector<T> logdet(const std::vector<T>& x, Index n) {
  std::vector<T> made = det(x, n);
  for (T& one : made) one = log(T(one));
  return made;
}

// By the factors: the determinant itself may be too large for a number.
template <typename T>
std::vector<T> slogdet_logabs(const std::vector<T>& x, Index n) {
  return squares(x, n, [n](const Rows<T>& a) {
    const Rows<T> factors = a.partialPivLu().matrixLU();
    T total(0);
    for (Index i = 0; i < n; ++i) total += log(abs(factors(i, i)));
    return Rows<T>::Constant(1, 1, total);
  });
}

template <typename T>
std::vector<T> slogdet_sign(const std::vector<T>& x, Index n) {
  std::vector<T> made = det(x, n);
  for (T& one : made) one = T((one.value() > 0) - (one.value() < 0));
  return made;
}

template <typename T>
std::vector<T> inv(const std::vector<T>& x, Index n) {
  return squares(x, n, [](const Rows<T>& a) { return Rows<T>(a.partialPivLu().inverse()); });
}

// Of the symmetric part.
template <typename T>
std::vector<T> cholesky(const std::vector<T>& x, Index n) {
  return squares(x, n, [](const Rows<T>& a) {
    const Rows<T> symmetric = (a + a.transpose()) / T(2);
    return Rows<T>(symmetric.llt().matrixL());
  });
}

// f of each of `count` systems (n, n) of k right sides.
template <typename T, typename F>
std::vector<T> systems(const std::vector<T>& a, const std::vector<T>& b, Index count, Index n, Index k, F f) {
  std::vector<T> made;
  for (Index i = 0; i < count; ++i) {
    const Rows<T> left = Eigen::Map<const Rows<T>>(a.data() + i * n * n, n, n);
    const Rows<T> right = Eigen::Map<const Rows<T>>(b.data() + i * n * k, n, k);
    const Rows<T> y = f(left, right);
    made.insert(made.end(), y.data(), y.data() + y.size());
  }
  return made;
}

template <typename T>
std::vector<T> solve(const std::vector<T>& a, const std::vector<T>& b, Index count, Index n, Index k) {
  return systems(a, b, count, n, k, [](const Rows<T>& left, const Rows<T>& right) {
    return Rows<T>(left.partialPivLu().solve(right));
  });
}

// Of the matrix only one half is read.
template <typename T, int half>
std::vector<T> triangular(const std::vector<T>& a, const std::vector<T>& b, Index count, Index n, Index k) {
  return systems(a, b, count, n, k, [](const Rows<T>& left, const Rows<T>& right) {
    return Rows<T>(left.template triangularView<half>().solve(right));
  });
}

}  // namespace gradcheck
