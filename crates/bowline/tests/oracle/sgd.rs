//! One step of gradient descent with the gradient clipped by its global norm (appendix A).

/// The Euclidean norm of all gradients together.
pub fn global_norm(gradient: &[f64]) -> f64 {
    gradient.iter().map(|g| g * g).sum::<f64>().sqrt()
}

/// `theta <- theta - learning_rate * g * min(1, clip / |g|)`; returns `|g|` before clipping.
pub fn step(params: &mut [f64], gradient: &[f64], learning_rate: f64, clip: f64) -> f64 {
    let norm = global_norm(gradient);
    let scale = if norm > clip { clip / norm } else { 1.0 };
    for (p, g) in params.iter_mut().zip(gradient) {
        *p -= learning_rate * scale * g;
    }
    norm
}
