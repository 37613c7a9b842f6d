"""C++: a program is written over `Eigen::AutoDiffScalar`, compiled once, and called."""
