// A user's function template, called with what a spec has: numbers are scalars T, vectors and
// matrices are Eigen's, of dynamic size, and larger arrays are Eigen's tensors.
//
// Include it after the user's own header, so that tensors are known where they are used.

#pragma once

#include "gradcheck.hpp"

#include <exception>
#include <string>

namespace gradcheck {

// What came out: the entries in C order, and the shape.
template <typename T>
struct Result {
  std::vector<T> entries;
  std::vector<Index> shape;
};

template <typename T>
T number(const std::vector<T>& all, Index first) {
  return all[first];
}

template <typename T>
Eigen::Matrix<T, Eigen::Dynamic, 1> vector(const std::vector<T>& all, Index first, Index size) {
  return Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>(all.data() + first, size);
}

template <typename T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename T>
Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> matrix(
    const std::vector<T>& all, Index first, Index rows, Index columns) {
  return Eigen::Map<const RowMajor<T>>(all.data() + first, rows, columns);
}

template <typename T, typename D>
Result<T> result(const Eigen::AutoDiffScalar<D>& y) {
  return {{T(y)}, {}};
}

template <typename T, typename D>
Result<T> result(const Eigen::MatrixBase<D>& y) {
  const RowMajor<T> m = y;
  std::vector<Index> shape{m.rows(), m.cols()};
  if (D::IsVectorAtCompileTime) shape = {m.size()};
  return {std::vector<T>(m.data(), m.data() + m.size()), shape};
}

template <typename T, typename D>
Result<T> result(const Eigen::ArrayBase<D>& y) {
  return result<T>(y.matrix());
}

#ifdef EIGEN_CXX11_TENSOR_TENSOR_H

// Eigen's tensors lie column by column: the axes change places with the layout.
template <int N>
std::array<int, N> reversed() {
  std::array<int, N> axes;
  for (int i = 0; i < N; ++i) axes[i] = N - 1 - i;
  return axes;
}

template <typename T, int N>
Eigen::Tensor<T, N> tensor(const std::vector<T>& all, Index first, std::array<Index, N> sizes) {
  Eigen::TensorMap<const Eigen::Tensor<T, N, Eigen::RowMajor>> rows(all.data() + first, sizes);
  return rows.swap_layout().shuffle(reversed<N>());
}

template <typename T, typename D>
Result<T> result(const Eigen::TensorBase<D, Eigen::ReadOnlyAccessors>& y) {
  constexpr int N = Eigen::internal::traits<D>::NumDimensions;
  const Eigen::Tensor<T, N> columns = static_cast<const D&>(y);
  Result<T> found;
  for (int i = 0; i < N; ++i) found.shape.push_back(columns.dimension(i));
  if constexpr (N == 0) {
    found.entries = {columns()};
  } else {
    const Eigen::Tensor<T, N, Eigen::RowMajor> rows = columns.swap_layout().shuffle(reversed<N>());
    found.entries.assign(rows.data(), rows.data() + rows.size());
  }
  return found;
}

#endif

constexpr std::size_t dimensions = 8;  // of an output: what the caller has room for

// `f` at the inputs. Without `output` only the shape is told: its rank, then its sizes. What `f`
// throws goes to `problem`, and the answer is 1.
template <typename R, typename F>
int call(F f, const R* values, Index total, Index first, Index size, const R* directions, Index count,
         Index entries, R* output, R* tangents, Index* shape, std::string& problem) {
  using T = Scalar<R>;
  try {
    if (output)
      return drive<R>([&](const std::vector<T>& inputs) { return f(inputs).entries; },
                      values, total, first, size, directions, count, entries, output,
                      tangents);
    const Result<T> found = f(constants<T>(values, total));
    if (found.shape.size() > dimensions)
      throw std::length_error("an output has " + std::to_string(dimensions) + " dimensions at most");
    shape[0] = found.shape.size();
    std::copy(found.shape.begin(), found.shape.end(), shape + 1);
    return 0;
  } catch (const std::exception& error) {
    problem = error.what();
  } catch (...) {
    problem = "something that is no std::exception was thrown";
  }
  return 1;
}

}  // namespace gradcheck
