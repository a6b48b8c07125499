//! The compute kernels of Bowline.
