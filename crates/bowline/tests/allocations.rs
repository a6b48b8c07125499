//! A training step allocates nothing once the first few have made room. (Alone in its file: the counter sees every thread.)

use bowline::batch::{Streams, Window};
use bowline::compute::Compute;
use bowline::config::{Form, ModelKind, Size, TargetGradient, Training, preset};
use bowline::model::{Masks, Network, Pass, State, Use};
use bowline::optim;
use bowline::params::Params;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn a_training_step_allocates_nothing() {
    let ids: Vec<u32> = (0..40_000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 16).map(|x| x % 300).collect();
    let exact = ModelKind::ALL.map(|model| (model, Form::Exact));
    for (model, form) in exact.into_iter().chain([(ModelKind::Real, Form::Gram)]) {
        for gradient in [TargetGradient::Stop, TargetGradient::Flow] {
            let mut config = preset(Size::Small, model, "ptb");
            config.hidden = 40;
            (config.augment.gradient, config.augment.form) = (gradient, form);
            let spec = config.spec(300);
            let compute = Compute::with_threads(2);
            let mut network = Network::new(&spec, compute.clone(), Use::Train, config.unroll, config.batch);
            let (mut params, mut slope) = (Params::zeros(&spec), Params::zeros(&spec));
            params.data_mut().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32).sin() * 0.1);
            let mut state = State::zeros(&spec, config.batch);
            let mut masks = Masks::new(&spec, config.batch);
            let (streams, mut window) = (Streams::new(&ids, config.batch, config.unroll), Window::default());
            let mut step = |n: usize| {
                streams.read(n, &mut window);
                masks.draw(1, n as u64, config.keep);
                network.pack(&params, Use::Train);
                network.train(
                    &params,
                    &window,
                    &mut state,
                    Pass {
                        masks: Some(&masks),
                        augment: config.augmented_loss(Training::Second, n as u64, spec.vocab),
                        ..Pass::default()
                    },
                    &mut slope,
                );
                let norm = optim::global_norm(&compute, &slope);
                optim::step(&compute, &mut params, &slope, norm, config.rule(0.1));
            };
            // The first steps make room for the words they read.
            (0..3).for_each(&mut step);
            let region = Region::new(ALLOCATOR);
            (3..30).for_each(&mut step);
            let change = region.change();
            assert_eq!(
                (change.allocations, change.reallocations),
                (0, 0),
                "{model:?}, {gradient:?}, {form:?}: {change:?}"
            );
        }
    }
}
