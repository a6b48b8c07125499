//! The gradient of a step, shard by shard.
//!
//! A *shard* is one of `S` equal groups of streams that lie side by side in the batch (setting `shards`). The gradient of the
//! batch is by definition the sum of the shards' gradients, added from the first to the last. Which rank computes a shard is
//! therefore its own affair: rank `r` of `N` takes the shards `r`, `r + N`, ..., so that `N` of them are done in each of `S / N`
//! *rounds*. After a round the ranks exchange what they have: each gets its part of the flat gradient from all others and adds
//! it up in the order of the shards. In the end the parts are gathered. A rank sends `(S / N + 1) (N - 1) / N` times the size of
//! the gradient; with as many shards as ranks that is what a ring's sum over all ranks takes.

use super::ranks::{self, Ranks};
use crate::batch::Window;
use crate::compute::Compute;
use crate::error::Result;
use crate::model::{Masks, Network, Pass, State, WindowLoss};
use crate::params::Params;
use crate::spec::ModelSpec;
use bowline_kernels::{Buffer, elementwise};
use std::ops::Range;

/// What is to be done after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) stop: bool,
    pub(super) save: bool,
}

/// The shards of a batch, and the room to work on one after the other.
pub(super) struct Shards<'a> {
    ranks: &'a dyn Ranks,
    count: usize,
    /// Streams of a shard.
    streams: usize,
    /// Those of the shard under way; empty where there is one alone.
    window: Window,
    state: State,
    masks: Masks,
    /// The gradient of a shard that is to be added to others; empty where there is none.
    partial: Option<Params>,
    /// The part of the gradient that each rank adds up.
    parts: Vec<Range<usize>>,
    /// This rank's part from each rank, and their sum.
    received: Buffer,
    sum: Buffer,
    /// The losses of this rank's shards.
    losses: Vec<WindowLoss>,
}

impl<'a> Shards<'a> {
    /// Of a batch of so many streams, which `count` divides, as `ranks` divide the shards.
    pub(super) fn new(ranks: &'a dyn Ranks, spec: &ModelSpec, (batch, count): (usize, usize)) -> Shards<'a> {
        let (n, size, streams) = (spec.layout().len(), ranks.size(), batch / count);
        let parts = ranks::parts(n, size);
        let own = if size > 1 { parts[ranks.rank()].len() } else { 0 };
        Shards {
            ranks,
            count,
            streams,
            window: Window::default(),
            state: State::zeros(spec, if count > 1 { streams } else { 0 }),
            masks: Masks::default(),
            partial: (count > 1 && size == 1).then(|| Params::zeros(spec)),
            parts,
            received: Buffer::zeros(own * size),
            sum: Buffer::zeros(own),
            losses: Vec::new(),
        }
    }

    /// The streams of the shards that a rank computes.
    fn own(&self, rank: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let streams = self.streams;
        (rank..self.count).step_by(self.ranks.size()).map(move |shard| shard * streams..(shard + 1) * streams)
    }

    /// The loss of the whole batch in the step that was done last, added in the order of the shards; and what the ranks wish:
    /// to stop if one of them does, to save if rank 0 does.
    pub(super) fn agree(&self, wish: Wish) -> Result<(WindowLoss, Wish)> {
        let mut sum = WindowLoss::default();
        let mut add = |ce: f64, kl: f64| (sum.ce, sum.kl) = (sum.ce + ce, sum.kl + kl);
        if self.ranks.size() == 1 {
            self.losses.iter().for_each(|loss| add(loss.ce, loss.kl));
            return Ok((sum, wish));
        }
        let losses = self.losses.iter().flat_map(|loss| [loss.ce, loss.kl]);
        let mine: Vec<u8> = losses.flat_map(f64::to_le_bytes).chain([wish.stop.into(), wish.save.into()]).collect();
        let all = self.ranks.tell(&mine)?;
        for round in 0..self.losses.len() {
            for (losses, _) in all.iter().map(|message| message.as_chunks::<16>()) {
                let number =
                    |i: usize| losses.get(round).map_or(f64::NAN, |both| f64::from_le_bytes(both.as_chunks().0[i]));
                add(number(0), number(1));
            }
        }
        let wishes = |i: usize| all.iter().map(move |message| message.iter().rev().nth(1 - i) == Some(&1));
        Ok((sum, Wish { stop: wishes(0).any(|stop| stop), save: wishes(1).next().unwrap_or(false) }))
    }

    /// Puts the states of all streams together: each rank has those of its own.
    pub(super) fn collect(&mut self, state: &mut State) -> Result<()> {
        if self.ranks.size() == 1 {
            return Ok(());
        }
        let mut mine = Vec::new();
        for streams in self.own(self.ranks.rank()) {
            self.state.take_streams(state, streams.start);
            self.state.parts.iter().for_each(|part| mine.extend(ranks::to_bytes(&part.values)));
        }
        for (rank, message) in self.ranks.tell(&mine)?.iter().enumerate() {
            let mut rest = &message[..];
            for streams in self.own(rank) {
                for part in &mut self.state.parts {
                    let (bytes, after) = rest.split_at(rest.len().min(size_of::<f32>() * part.values.len()));
                    ranks::from_bytes(bytes, &mut part.values);
                    rest = after;
                }
                state.put_streams(&self.state, streams.start);
            }
        }
        Ok(())
    }

    /// The gradient of the whole batch. The weights must have been given to [`Network::pack`]. False if asked to stop before;
    /// then state and gradient are void.
    pub(super) fn gradient(
        &mut self,
        network: &mut Network,
        params: &Params,
        (window, state): (&Window, &mut State),
        pass: Pass<'_>,
        gradient: &mut Params,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool> {
        self.losses.clear();
        if self.count == 1 {
            let loss = network.train_until(params, window, state, pass, gradient, stop);
            self.losses.extend(loss);
            return Ok(loss.is_some());
        }
        let compute = network.compute().clone();
        let mut partial = self.partial.take();
        for (round, streams) in self.own(self.ranks.rank()).enumerate() {
            let into = if round == 0 { &mut *gradient } else { partial.as_mut().unwrap_or(gradient) };
            let done = self.one(network, params, (window, state), (pass, streams), into, stop);
            if done && self.ranks.size() > 1 {
                self.exchange(&compute, gradient, round)?;
            } else if let (true, Some(partial)) = (done && round > 0, &partial) {
                elementwise::add_scaled(&compute.team, compute.isa, gradient.data_mut(), 1.0, partial.data(), 0.0);
            }
            if !done {
                self.partial = partial;
                return Ok(false);
            }
        }
        self.partial = partial;
        if self.ranks.size() > 1 {
            self.ranks.gather(&self.sum, &self.parts, gradient.data_mut())?;
        }
        Ok(true)
    }

    /// The gradient of one shard; false if asked to stop before.
    fn one(
        &mut self,
        network: &mut Network,
        params: &Params,
        (window, state): (&Window, &mut State),
        (pass, streams): (Pass<'_>, Range<usize>),
        gradient: &mut Params,
        stop: &dyn Fn() -> bool,
    ) -> bool {
        self.window.take_streams(window, streams.clone());
        self.state.take_streams(state, streams.start);
        if let Some(masks) = pass.masks {
            self.masks.take_streams(masks, params.spec(), window.batch, streams.clone());
        }
        let pass = Pass { masks: pass.masks.map(|_| &self.masks), shards: self.count, ..pass };
        let loss = network.train_until(params, &self.window, &mut self.state, pass, gradient, stop);
        self.losses.extend(loss);
        state.put_streams(&self.state, streams.start);
        loss.is_some()
    }

    /// Adds what all ranks have computed in a round to this rank's part of the sum.
    fn exchange(&mut self, compute: &Compute, gradient: &Params, round: usize) -> Result<()> {
        self.ranks.exchange(gradient.data(), &self.parts, &mut self.received)?;
        let own = self.sum.len();
        for (rank, received) in self.received.chunks_exact(own.max(1)).enumerate() {
            if round == 0 && rank == 0 {
                self.sum.copy_from_slice(received);
            } else {
                elementwise::add_scaled(&compute.team, compute.isa, &mut self.sum, 1.0, received, 0.0);
            }
        }
        Ok(())
    }
}
