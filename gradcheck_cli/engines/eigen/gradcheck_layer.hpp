// A user's function template, called with what a spec has: numbers are scalars T, vectors and
// matrices are Eigen's, of dynamic size, and larger arrays are Eigen's tensors. A function that does
// not take those is given arrays of every kind at once, and deduction finds the one that it takes.
//
// Include it after the user's own header, so that tensors are known where they are used.

#pragma once

#include "gradcheck.hpp"

#include <array>
#include <exception>
#include <string>
#include <tuple>
#include <type_traits>

namespace gradcheck {

// What came out: the entries in C order, and the shape.
template <typename T>
struct Result {
  std::vector<T> entries;
  std::vector<Index> shape;
};

template <typename T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

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

template <typename T>
Result<T> result(const std::vector<T>& y) {
  return {y, {Index(y.size())}};
}

template <typename T, std::size_t n>
Result<T> result(const std::array<T, n>& y) {
  return {std::vector<T>(y.begin(), y.end()), {Index(n)}};
}

#ifdef EIGEN_CXX11_TENSOR_TENSOR_H

// Eigen's tensors lie column by column: the axes change places with the layout.
template <int N>
std::array<int, N> reversed() {
  std::array<int, N> axes;
  for (int i = 0; i < N; ++i) axes[i] = N - 1 - i;
  return axes;
}

template <typename T, typename D>
Result<T> result(const Eigen::TensorBase<D, Eigen::ReadOnlyAccessors>& y) {
  constexpr int N = Eigen::internal::traits<D>::NumDimensions, layout = Eigen::internal::traits<D>::Layout;
  const Eigen::Tensor<T, N, layout> made = static_cast<const D&>(y);
  Result<T> found;
  for (int i = 0; i < N; ++i) found.shape.push_back(made.dimension(i));
  if constexpr (N == 0 || layout == int(Eigen::RowMajor)) {
    found.entries.assign(made.data(), made.data() + made.size());
  } else {
    const Eigen::Tensor<T, N, Eigen::RowMajor> rows = made.swap_layout().shuffle(reversed<N>());
    found.entries.assign(rows.data(), rows.data() + rows.size());
  }
  return found;
}

#endif

#ifdef EIGEN_CXX11_TENSOR_TENSOR_H

template <typename K>
constexpr bool is_tensor = false;
template <typename T, int N, int layout>
constexpr bool is_tensor<Eigen::Tensor<T, N, layout>> = true;

template <typename K, typename T>
K made(const T* x, std::array<Index, K::NumDimensions> sizes) {
  constexpr int N = K::NumDimensions;
  const Eigen::TensorMap<const Eigen::Tensor<T, N, Eigen::RowMajor>> rows(x, sizes);
  if constexpr (int(K::Layout) == int(Eigen::RowMajor)) return K(rows);
  else return K(rows.swap_layout().shuffle(reversed<N>()));
}

#endif

// An array of dense storage K, or of the standard library's, from its entries in C order.
template <typename K, typename T>
K made(const T* x, Index rows, Index columns) {
  if constexpr (std::is_same_v<K, std::vector<T>>) {
    return K(x, x + rows * columns);
  } else if constexpr (std::is_base_of_v<Eigen::EigenBase<K>, K>) {
    K y;
    if constexpr (K::IsVectorAtCompileTime) y.resize(rows * columns);
    else y.resize(rows, columns);
    for (Index i = 0; i < y.rows(); ++i)
      for (Index j = 0; j < y.cols(); ++j) y(i, j) = x[i * y.cols() + j];
    return y;
#ifdef EIGEN_CXX11_TENSOR_TENSOR_H
  } else if constexpr (is_tensor<K>) {
    const std::array<Index, 2> sizes{rows, columns};
    std::array<Index, K::NumDimensions> own;
    std::copy_n(sizes.begin(), own.size(), own.begin());
    return made<K>(x, own);
#endif
  } else {
    K y;
    std::copy(x, x + rows * columns, y.begin());
    return y;
  }
}

// Something that is of each of these kinds. (Of bases that are the same, one.)
template <typename... Kinds>
struct All : Kinds... {
  template <typename T, typename... N>
  All(const T* x, N... sizes) : Kinds(made<Kinds>(x, sizes...))... {}
};

template <typename Found, typename... Kinds>
struct Distinct;
template <typename... Found>
struct Distinct<All<Found...>> {
  using type = All<Found...>;
};
template <typename... Found, typename Kind, typename... Kinds>
struct Distinct<All<Found...>, Kind, Kinds...>
    : std::conditional_t<(std::is_same_v<Found, Kind> || ...), Distinct<All<Found...>, Kinds...>,
                         Distinct<All<Found..., Kind>, Kinds...>> {};

#ifdef EIGEN_CXX11_TENSOR_TENSOR_H
template <typename T, int N>
using Tensors = All<Eigen::Tensor<T, N>, Eigen::Tensor<T, N, Eigen::RowMajor>>;
#else
template <typename T, int N>
using Tensors = All<>;
#endif
template <typename T, int N, typename... Kinds>
using Every = typename Distinct<Tensors<T, N>, Kinds...>::type;

// The arguments by their places among the inputs: `plain` is what they are usually.
struct Number {
  Index first;
  template <typename T>
  T plain(const std::vector<T>& all) const { return all[first]; }
  template <typename T>
  T every(const std::vector<T>& all) const { return all[first]; }
};

// What is no input: it has its value.
template <typename V>
struct Fixed {
  V value;
  template <typename T>
  V plain(const std::vector<T>&) const { return value; }
  template <typename T>
  V every(const std::vector<T>&) const { return value; }
};
template <typename V>
Fixed(V) -> Fixed<V>;

// Whole numbers, column by column.
template <typename K>
Fixed<K> whole(std::initializer_list<int> entries, Index rows, Index columns = 1) {
  K made(rows, columns);
  std::copy(entries.begin(), entries.end(), made.data());
  return {made};
}

// A size that is fixed where so many numbers may lie on the stack.
template <typename T, Index n>
constexpr int fixed = n * sizeof(T) <= EIGEN_STACK_ALLOCATION_LIMIT ? int(n) : Eigen::Dynamic;

// Eigen's vectors have one order only.
constexpr int order(int rows, int columns, int wanted) {
  return rows == 1 && columns != 1 ? Eigen::RowMajor : columns == 1 && rows != 1 ? Eigen::ColMajor : wanted;
}
template <typename T, int r, int c, int o>
using Dense = Eigen::Matrix<T, r, c, order(r, c, o)>;
template <typename T, int r, int c>
using DenseArray = Eigen::Array<T, r, c, order(r, c, Eigen::ColMajor)>;
constexpr int any = Eigen::Dynamic;

template <Index n>
struct Vector {
  Index first;
  template <typename T>
  auto plain(const std::vector<T>& all) const {
    return made<Eigen::Matrix<T, any, 1>>(all.data() + first, n, 1);
  }
  template <typename T>
  auto every(const std::vector<T>& all) const {
    constexpr int m = fixed<T, n>;
    using Standard = std::conditional_t<m == any, std::vector<T>, std::array<T, std::size_t(n)>>;
    return Every<T, 1, Dense<T, any, 1, 0>, Dense<T, 1, any, 0>, Dense<T, m, 1, 0>, Dense<T, 1, m, 0>, DenseArray<T, any, 1>,
                 DenseArray<T, m, 1>, std::vector<T>, Standard>(all.data() + first, n, Index(1));
  }
};

template <Index rows, Index columns>
struct Grid {
  Index first;
  template <typename T>
  auto plain(const std::vector<T>& all) const {
    return made<Eigen::Matrix<T, any, any>>(all.data() + first, rows, columns);
  }
  template <typename T>
  auto every(const std::vector<T>& all) const {
    constexpr bool small = fixed<T, rows * columns> != any;
    constexpr int r = small ? int(rows) : any, c = small ? int(columns) : any;
    constexpr int by_row = Eigen::RowMajor, by_column = Eigen::ColMajor;
    return Every<T, 2, Dense<T, any, any, by_column>, Dense<T, any, any, by_row>, Dense<T, r, c, by_column>, Dense<T, r, c, by_row>,
                 Dense<T, any, c, by_column>, Dense<T, any, c, by_row>, Dense<T, r, any, by_column>,
                 DenseArray<T, any, any>, DenseArray<T, r, c>>(all.data() + first, rows, columns);
  }
};

#ifdef EIGEN_CXX11_TENSOR_TENSOR_H

template <Index... sizes>
struct Cube {
  Index first;
  static constexpr int N = sizeof...(sizes);
  template <typename T>
  auto plain(const std::vector<T>& all) const {
    return made<Eigen::Tensor<T, N>>(all.data() + first, std::array<Index, N>{sizes...});
  }
  template <typename T>
  auto every(const std::vector<T>& all) const {
    return Tensors<T, N>(all.data() + first, std::array<Index, N>{sizes...});
  }
};

#endif

template <typename T, typename F, typename... A>
Result<T> plainly(const F& f, const std::vector<T>& inputs, const A&... a) {
  std::tuple<decltype(a.plain(inputs))...> given{a.plain(inputs)...};
  return std::apply(f, given);
}

// What `f` gives for plain arguments; where `fits` takes none of those, but every kind, for these.
template <typename T, typename Fits, typename F, typename... A>
Result<T> applied(const Fits&, const F& f, const std::vector<T>& inputs, const A&... a) {
  if constexpr (std::is_invocable_v<const Fits&, decltype(a.plain(inputs))&...>) {
    return plainly(f, inputs, a...);
  } else if constexpr (std::is_invocable_v<const Fits&, decltype(a.every(inputs))&...>) {
    std::tuple<decltype(a.every(inputs))...> given{a.every(inputs)...};
    return std::apply(f, given);
  } else {
    return plainly(f, inputs, a...);  // the compiler says why it cannot be
  }
}

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
