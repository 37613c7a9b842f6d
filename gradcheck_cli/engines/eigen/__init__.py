"""C++: a program is written out over `Eigen::AutoDiffScalar`, compiled once, and called."""
