//! A layer of a feed-forward highway (Srivastava et al. 2015): `y = t g + (1 - t) x` with `t = sigmoid(W_t x + b_t)` and
//! `g = relu(W_g x + b_g)`.

use crate::compute::Compute;
use crate::layout::ProjectionTensors;
use crate::model::layer::Backward;
use crate::model::pass::LayerMasks;
use crate::model::projection::Projection;
use crate::params::Params;
use crate::spec::{Activation, ProjectionSpec};
use bowline_kernels::{Buffer, PackedB};

/// The buffers and packed weights of a layer.
pub(super) struct Highway {
    width: usize,
    transform: Projection,
    candidate: Projection,
    /// (n, d).
    y: Buffer,
    /// (n, d) each: the gradients by what the two give, and back through one of them.
    d_transform: Buffer,
    d_candidate: Buffer,
    through: Buffer,
}

impl Highway {
    /// Room for `rows` vectors of `width` values.
    pub(super) fn new(compute: &Compute, tensors: &[ProjectionTensors; 2], width: usize, rows: usize) -> Highway {
        let part = |activation: Activation, tensors: ProjectionTensors| {
            Projection::with(ProjectionSpec { width, activation, bias: true }, tensors, width, compute, rows)
        };
        Highway {
            width,
            transform: part(Activation::Sigmoid, tensors[0]),
            candidate: part(Activation::Relu, tensors[1]),
            y: Buffer::zeros(rows * width),
            d_transform: Buffer::new(),
            d_candidate: Buffer::new(),
            through: Buffer::new(),
        }
    }

    /// Takes new weights.
    pub(super) fn pack(&mut self, params: &Params) {
        self.transform.pack(params);
        self.candidate.pack(params);
    }

    /// From `x`, (n, d), to [`Highway::output`].
    pub(super) fn forward(&mut self, params: &Params, x: &[f32]) {
        let shape = (x.len() / self.width, 1);
        self.transform.forward(params, x, None, shape);
        self.candidate.forward(params, x, None, shape);
        let gates = self.transform.output(shape).iter().zip(self.candidate.output(shape));
        self.y.iter_mut().zip(gates).zip(x).for_each(|((y, (t, g)), x)| *y = t * g + (1.0 - t) * x);
    }

    /// (n, d).
    pub(super) fn output(&self, rows: usize) -> &[f32] {
        &self.y[..rows * self.width]
    }

    /// From the gradient by the output, in `d`, to that by `x`, in its place, and to that of the weights.
    pub(super) fn backward(
        &mut self,
        params: &Params,
        x: &[f32],
        d: &mut [f32],
        gradient: &mut Params,
        scratch: &mut PackedB,
    ) {
        let shape = (x.len() / self.width, 1);
        let (t, g) = (self.transform.output(shape), self.candidate.output(shape));
        for buffer in [&mut self.d_transform, &mut self.d_candidate, &mut self.through] {
            buffer.grow(x.len());
        }
        let by_gates = self.d_transform.iter_mut().zip(self.d_candidate.iter_mut());
        for (((d_t, d_g), d), ((t, g), x)) in by_gates.zip(&mut *d).zip(t.iter().zip(g).zip(x)) {
            (*d_t, *d_g, *d) = (*d * (g - x), *d * t, *d * (1.0 - t));
        }
        let d_gates = [(&self.transform, &mut self.d_transform), (&self.candidate, &mut self.d_candidate)];
        for (part, d_part) in d_gates {
            let (masks, through) = (LayerMasks::default(), &mut self.through[..x.len()]);
            let back = Backward { params, x, masks, shape, d_output: &mut d_part[..x.len()], d_raw: None };
            part.backward(back, gradient, through, scratch);
            d.iter_mut().zip(&*through).for_each(|(d, through)| *d += through);
        }
    }
}
