// What a program over Eigen's AutoDiffScalar is written in, and how it is driven.
//
// Arrays are std::vector, flattened in C order; the shapes are known where the program is written.
// T is the scalar that is differentiated, R the floating-point type below it.

#pragma once

#include <Eigen/Core>
#include <unsupported/Eigen/AutoDiff>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

// A function that the library exports.
#define GRADCHECK_EXPORT extern "C" __attribute__((visibility("default")))

namespace gradcheck {

using Index = std::int64_t;
using Flag = unsigned char;

// Derivatives along so many directions are carried at a time: what a run keeps does not grow with
// the number of inputs.
constexpr int chunk = 8;

template <typename R>
using Scalar = Eigen::AutoDiffScalar<Eigen::Matrix<R, chunk, 1>>;

// What a run is given beside its inputs: index maps, floating constants, masks.
template <typename R>
struct Given {
  const Index* maps;
  const R* constants;
  const Flag* flags;
};

template <typename T>
std::vector<T> part(const std::vector<T>& all, Index first, Index count) {
  return std::vector<T>(all.begin() + first, all.begin() + first + count);
}

// Constants, with derivatives of zero.
template <typename T, typename R>
std::vector<T> constants(const R* first, Index count) {
  std::vector<T> made;
  made.reserve(count);
  for (Index i = 0; i < count; ++i) made.push_back(T(first[i]));
  return made;
}

inline std::vector<Flag> flags(const Flag* first, Index count) {
  return std::vector<Flag>(first, first + count);
}

// Entry by entry; an array of one entry meets all entries of the others.
template <typename Out, typename F, typename... A>
std::vector<Out> each(Index count, F f, const std::vector<A>&... a) {
  std::vector<Out> made(count);
  for (Index i = 0; i < count; ++i) made[i] = f(a[a.size() == 1 ? 0 : i]...);
  return made;
}

// Entry map[i] of the arrays one after the other; zero for -1.
template <typename T>
std::vector<T> gather(const Index* map, Index count, std::initializer_list<const std::vector<T>*> arrays) {
  std::vector<const T*> places;
  for (const auto* array : arrays)
    for (const T& entry : *array) places.push_back(&entry);
  std::vector<T> made;
  made.reserve(count);
  for (Index i = 0; i < count; ++i) made.push_back(map[i] < 0 ? T(0) : *places[map[i]]);
  return made;
}

// f of each row of `columns` entries.
template <typename T, typename F>
std::vector<T> rows(const std::vector<T>& x, Index columns, F f) {
  std::vector<T> made;
  made.reserve(x.size() / columns);
  for (std::size_t i = 0; i < x.size(); i += columns) made.push_back(f(&x[i], columns));
  return made;
}

template <typename T>
T sum(const T* x, Index n) {
  T total = x[0];
  for (Index i = 1; i < n; ++i) total += x[i];
  return total;
}

template <typename T>
T prod(const T* x, Index n) {
  T total = x[0];
  for (Index i = 1; i < n; ++i) total *= x[i];
  return total;
}

template <typename T>
T largest(const T* x, Index n) {
  return *std::max_element(x, x + n, [](const T& a, const T& b) { return a.value() < b.value(); });
}

template <typename T>
T smallest(const T* x, Index n) {
  return *std::min_element(x, x + n, [](const T& a, const T& b) { return a.value() < b.value(); });
}

// Of the n numbers about their mean.
template <typename T>
T squares_about_mean(const T* x, Index n) {
  using R = typename T::Scalar;
  const T mean = sum(x, n) / R(n);
  T total = (x[0] - mean) * (x[0] - mean);
  for (Index i = 1; i < n; ++i) total += (x[i] - mean) * (x[i] - mean);
  return total;
}

// By the largest, so that nothing overflows.
template <typename T>
T logsumexp(const T* x, Index n) {
  const T top = largest(x, n);
  T total = exp(T(x[0] - top));
  for (Index i = 1; i < n; ++i) total += exp(T(x[i] - top));
  return top + log(total);
}

// Each row divided by what f makes of it, or lessened by it.
template <typename T>
std::vector<T> softmax(const std::vector<T>& x, Index columns) {
  std::vector<T> made(x.size());
  for (std::size_t i = 0; i < x.size(); i += columns) {
    const T top = largest(&x[i], columns);
    for (Index j = 0; j < columns; ++j) made[i + j] = exp(T(x[i + j] - top));
    const T total = sum(&made[i], columns);
    for (Index j = 0; j < columns; ++j) made[i + j] /= total;
  }
  return made;
}

template <typename T>
std::vector<T> log_softmax(const std::vector<T>& x, Index columns) {
  std::vector<T> made(x.size());
  for (std::size_t i = 0; i < x.size(); i += columns) {
    const T total = logsumexp(&x[i], columns);
    for (Index j = 0; j < columns; ++j) made[i + j] = x[i + j] - total;
  }
  return made;
}

// Running sums and products along rows.
template <typename T, typename F>
std::vector<T> running(std::vector<T> x, Index columns, F f) {
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i % columns) x[i] = f(x[i - 1], x[i]);
  return x;
}

// Eigen's product of matrices (n, k) and (k, m), `count` of them.
template <typename T>
std::vector<T> matmul(const std::vector<T>& a, const std::vector<T>& b, Index count, Index n, Index k, Index m) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  std::vector<T> made(count * n * m);
  for (Index i = 0; i < count; ++i) {
    Eigen::Map<const Matrix> left(a.data() + i * n * k, n, k), right(b.data() + i * k * m, k, m);
    Eigen::Map<Matrix>(made.data() + i * n * m, n, m) = left.lazyProduct(right);
  }
  return made;
}

// The numbers alone, without their derivatives.
template <typename T>
std::vector<T> plain(const std::vector<T>& x) {
  std::vector<T> made;
  made.reserve(x.size());
  for (const T& entry : x) made.push_back(T(entry.value()));
  return made;
}

// y with the derivatives that a vjp states: pull(y_bar) gives a cotangent for each of `x`, or none.
template <typename T, typename F>
std::vector<T> pulled(std::vector<T> y, std::vector<const std::vector<T>*> x, F pull) {
  for (std::size_t k = 0; k < y.size(); ++k) {
    std::vector<T> y_bar(y.size(), T(0));
    y_bar[k] = T(1);
    const std::vector<std::vector<T>> x_bar = pull(y_bar);
    y[k].derivatives().setZero();
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t j = 0; j < x_bar[i].size(); ++j)
        y[k].derivatives() += x_bar[i][j].value() * (*x[i])[j].derivatives();
  }
  return y;
}

// y with the derivatives that a jvp states: push(x_dot) gives the tangent of y, first of its list.
template <typename T, typename F>
std::vector<T> pushed(std::vector<T> y, std::vector<const std::vector<T>*> x, F push) {
  for (int d = 0; d < chunk; ++d) {
    std::vector<std::vector<T>> x_dot(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      for (const T& entry : *x[i]) x_dot[i].push_back(T(entry.derivatives()(d)));
    const std::vector<T> y_dot = push(x_dot)[0];
    for (std::size_t k = 0; k < y.size(); ++k) y[k].derivatives()(d) = y_dot[k].value();
  }
  return y;
}

// The value of `f` at the inputs, and its derivatives along `count` directions of the inputs from
// `first` on: the rows of `directions` (count, size), or the unit vectors where that is null. Throws
// std::length_error where `f` gives another number of entries than there is room for.
template <typename R, typename F>
int drive(F f, const R* values, Index total, Index first, Index size, const R* directions, Index count,
          Index entries, R* output, R* tangents) {
  using T = Scalar<R>;
  std::vector<T> inputs = constants<T>(values, total);
  for (Index start = 0; start < std::max<Index>(count, 1); start += chunk) {
    const Index columns = std::min<Index>(chunk, count - start);
    for (Index j = 0; j < columns; ++j) {
      if (!directions) inputs[first + start + j].derivatives()(j) = R(1);
      else
        for (Index i = 0; i < size; ++i)
          inputs[first + i].derivatives()(j) = directions[(start + j) * size + i];
    }
    const std::vector<T> y = f(inputs);
    if (static_cast<Index>(y.size()) != entries)
      throw std::length_error("the output has " + std::to_string(y.size()) + " entries, and " +
                              std::to_string(entries) + " were expected");
    for (std::size_t i = 0; i < y.size(); ++i) {
      output[i] = y[i].value();
      for (Index j = 0; j < columns; ++j) tangents[(start + j) * y.size() + i] = y[i].derivatives()(j);
    }
    const Index moved = directions ? size : columns, place = directions ? first : first + start;
    for (Index i = 0; i < moved; ++i) inputs[place + i].derivatives().setZero();
  }
  return 0;
}

}  // namespace gradcheck
