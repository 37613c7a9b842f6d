// What users write: templates over the scalar.

#pragma once

#include <Eigen/Core>
#include <array>
#include <vector>

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

template <typename T>
Vector<T> misfit(const Eigen::Ref<const Vector<T>>& x) {
  return x.head(2) + x;
}

struct Positive {
  template <typename T>
  Vector<T> operator()(const Vector<T>& x) const {
    Vector<T> kept(0);
    for (const T& entry : x)
      if (entry > 0) {
        kept.conservativeResize(kept.size() + 1);
        kept(kept.size() - 1) = entry;
      }
    return kept;
  }
};

template <typename T>
std::array<T, 2> kinds(
    Eigen::Matrix<T, Eigen::Dynamic, 3, Eigen::RowMajor>& x,
    const Eigen::Array<T, 3, 1>& w,
    const std::vector<T>& v,
    const Eigen::VectorXi& at) {
  return {(x * w.matrix()).sum(), v[at(1)] * w(at(0))};
}

template <typename T>
T kept(const T& x) {
  static const double first = x.value();
  return first * x;
}

template <typename T>
T unset(const Vector<T>& x) {
  T sum;
  for (Eigen::Index i = 0; i < x.size(); ++i) sum += x[i];
  return sum;
}
