// Layers of C++ that are right in an odd way, or wrong in one place: `tests.fuzz.oddities`.
// The line above each says what is expected of it, as the docstrings of the other files do.

#pragma once

#include <Eigen/Core>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

template <typename T>
using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

template <typename R, int N>
using Dual = Eigen::AutoDiffScalar<Eigen::Matrix<R, N, 1>>;

// Right: a template as in the manual.
template <typename T>
Vector<T> sine(const Vector<T>& x) {
  return x.unaryExpr([](const T& z) -> T { return sin(z); });
}

// Right: std::vector.
template <typename T>
std::vector<T> standard(const std::vector<T>& x) {
  std::vector<T> y;
  for (const T& z : x) y.push_back(sin(z));
  return y;
}

// Right: the input itself.
template <typename T>
Vector<T> same(const Vector<T>& x) {
  return x;
}

template <typename T>
T deep(const T& x, int depth) {
  return depth == 0 ? x : T(sin(deep<T>(x, depth - 1)));
}

// Right: a recursion.
template <typename T>
T recursion(const Vector<T>& x) {
  return deep<T>(x.sum(), 5);
}

// Right: computed in a thread.
template <typename T>
Vector<T> threaded(const Vector<T>& x) {
  Vector<T> y;
  std::thread([&] { y = sine<T>(x); }).join();
  return y;
}

// Right: a closure that is called later.
template <typename T>
Vector<T> closure(const Vector<T>& x) {
  std::function<Vector<T>()> later = [&x] { return Vector<T>(x * x.sum()); };
  return later();
}

// Right: an exception that is caught.
template <typename T>
Vector<T> caught(const Vector<T>& x) {
  try {
    throw std::runtime_error("no");
  } catch (const std::exception&) {
  }
  return sine<T>(x);
}

template <typename R, int N>
Dual<R, N> changed(const Dual<R, N>& x, R factor) {
  return {std::sin(x.value()), factor * std::cos(x.value()) * x.derivatives()};
}

// GC101: the sign.
template <typename R, int N>
Vector<Dual<R, N>> sign(const Vector<Dual<R, N>>& x) {
  return x.unaryExpr([](const Dual<R, N>& z) -> Dual<R, N> { return changed<R, N>(z, R(-1)); });
}

// GC101 GC301: float32 only.
template <typename R, int N>
Vector<Dual<R, N>> in_float32(const Vector<Dual<R, N>>& x) {
  const R factor = sizeof(R) == 4 ? R(1.5) : R(1);
  return x.unaryExpr([=](const Dual<R, N>& z) -> Dual<R, N> { return changed<R, N>(z, factor); });
}

// GC101: float64 only.
template <typename R, int N>
Vector<Dual<R, N>> in_float64(const Vector<Dual<R, N>>& x) {
  const R factor = sizeof(R) == 8 ? R(1.5) : R(1);
  return x.unaryExpr([=](const Dual<R, N>& z) -> Dual<R, N> { return changed<R, N>(z, factor); });
}

// GC101: one entry.
template <typename R, int N>
Vector<Dual<R, N>> one_entry(const Vector<Dual<R, N>>& x) {
  Vector<Dual<R, N>> y(x.size());
  for (Eigen::Index i = 0; i < x.size(); ++i) y(i) = changed<R, N>(x(i), i == 0 ? R(0.5) : R(1));
  return y;
}

// GC101 GC102: the derivative is dropped.
template <typename R, int N>
Vector<Dual<R, N>> dropped(const Vector<Dual<R, N>>& x) {
  return x.unaryExpr([](const Dual<R, N>& z) -> Dual<R, N> { return Dual<R, N>(std::sin(z.value())); });
}

// GC101 GC102: a factor is a plain number.
template <typename R, int N>
Vector<Dual<R, N>> half_dropped(const Vector<Dual<R, N>>& x) {
  return x * Dual<R, N>(x(0).value());
}

// GC701: throws.
template <typename T>
Vector<T> throws(const Vector<T>& x) {
  throw std::runtime_error("no");
}

// GC701: throws what is no exception.
template <typename T>
Vector<T> throws_a_number(const Vector<T>& x) {
  throw 3;
}

// GC701 GC605: throws at its third call.
template <typename T>
Vector<T> throws_later(const Vector<T>& x) {
  static int calls = 0;
  if (++calls == 3) throw std::runtime_error("no");
  return sine<T>(x);
}

// GC702: writes to address 0.
template <typename T>
Vector<T> crashes(const Vector<T>& x) {
  volatile int* nothing = nullptr;
  *nothing = 1;
  return x;
}

// GC702: aborts.
template <typename T>
Vector<T> aborts(const Vector<T>& x) {
  std::abort();
}

// GC702: ends the process.
template <typename T>
Vector<T> ends(const Vector<T>& x) {
  std::_Exit(0);
}

// GC703: loops for ever.
// timeout: 3
template <typename T>
Vector<T> loops(const Vector<T>& x) {
  for (volatile int i = 0;; i = i + 1) {
  }
}

// GC701 GC702: reads beyond the end.
template <typename T>
Vector<T> beyond(const Vector<T>& x) {
  return x.head(x.size() + 1);
}

// GC101 GC602 GC605: scaled by the number of calls.
template <typename T>
Vector<T> grows(const Vector<T>& x) {
  static int calls = 0;
  return sine<T>(x) * T(++calls);
}

// GC203: nan.
template <typename T>
Vector<T> is_not_a_number(const Vector<T>& x) {
  Vector<T> y = x;
  y(0) = y(0) * T(std::numeric_limits<double>::quiet_NaN());
  return y;
}

// GC109: nothing in the result.
template <typename T>
Vector<T> nothing(const Vector<T>& x) {
  return Vector<T>(0);
}

// GC201 GC202 GC402: a norm at 0.
// inputs: {x: [0.0, 0.0]}
template <typename T>
T norm_at_zero(const Vector<T>& x) {
  return sqrt(x.squaredNorm());
}

// Right: order of columns.
// inputs: {x: {shape: [3, 2], distribution: normal, seed: 1}}
template <typename T>
Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows(
    const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>& x) {
  return x * x.transpose();
}

// Right: a fixed size.
// inputs: {x: [0.5, -1.25, 2.0]}
template <typename T>
Eigen::Matrix<T, 3, 1> fixed(const Eigen::Matrix<T, 3, 1>& x) {
  return x * x(2);
}

// Right: whole numbers choose.
// inputs: {x: [0.5, -1.25, 2.0], k: {value: [0, 2, 0], dtype: int64}}
template <typename T>
Vector<T> indexes(const Vector<T>& x, const Eigen::VectorXi& k) {
  Vector<T> y(k.size());
  for (Eigen::Index i = 0; i < k.size(); ++i) y(i) = exp(x(k(i)));
  return y;
}

// Right: one number.
// inputs: {x: 0.7}
template <typename T>
T number(const T& x) {
  return T(sin(x));
}
