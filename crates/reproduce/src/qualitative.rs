//! The paper's qualitative claims as measurements (section 5.4), over every word of a text.
//!
//! It says of +REAL, beside the baseline: `<unk>` gets less probability; so do very frequent words such as "a", "an" and
//! "the"; and words close to the word that came get more. Here the first two are the mean probability over all positions
//! where the word did *not* come, so that a model is not blamed for expecting it rightly, and the third is the mean
//! probability of the nearest neighbours of the word that came, itself left out. Near is what is near in the embedding of
//! one and the same model for all that are compared.

use bowline::error::Result;
use bowline::loaded_model::LoadedModel;
use bowline_kernels::{Isa, Team};
use serde::Serialize;
use std::sync::Arc;

/// How many neighbours count as near.
const NEAR: usize = 10;

/// What was measured of a model on a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tendencies {
    /// For each word that was asked for: its mean probability where it did not come.
    pub words: Vec<(String, f64)>,
    /// Mean probability of the word that came.
    pub target: f64,
    /// Mean probability of the nearest neighbours of the word that came, together.
    pub near: f64,
    /// Positions.
    pub positions: usize,
}

/// Measures a model over `ids`. `neighbours` are those of [`neighbours`].
pub fn tendencies(
    model: &LoadedModel,
    team: &Arc<Team>,
    isa: Isa,
    ids: &[u32],
    words: &[&str],
    neighbours: &[Vec<u32>],
) -> Result<Tendencies> {
    let watched: Vec<(String, u32)> =
        words.iter().filter_map(|&word| Some((word.to_owned(), model.vocabulary.id(word)?))).collect();
    let mut sums = vec![(0.0, 0usize); watched.len()];
    let (mut target, mut near, mut positions) = (0.0, 0.0, 0);
    model.distributions(team, isa, ids, &mut |position, y| {
        let came = ids[position];
        let p = |id: u32| f64::from(y[id as usize]);
        for ((_, id), (sum, count)) in watched.iter().zip(&mut sums).filter(|((_, id), _)| *id != came) {
            *sum += p(*id);
            *count += 1;
        }
        target += p(came);
        near += neighbours[came as usize].iter().map(|&id| p(id)).sum::<f64>();
        positions += 1;
    })?;
    let mean = |sum: f64, count: usize| sum / count.max(1) as f64;
    Ok(Tendencies {
        words: watched.into_iter().zip(&sums).map(|((word, _), &(sum, count))| (word, mean(sum, count))).collect(),
        target: mean(target, positions),
        near: mean(near, positions),
        positions,
    })
}

/// The nearest neighbours of every word of `ids` by the cosine of their vectors; nothing for other words.
pub fn neighbours(model: &LoadedModel, ids: &[u32]) -> Result<Vec<Vec<u32>>> {
    let params = model.require_network("word vectors")?;
    let spec = params.spec();
    let (v, d) = (spec.vocab, spec.input.width);
    let mut unit = bowline::model::word_vectors(params).into_owned();
    for row in unit.chunks_exact_mut(d) {
        let length = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt().max(1e-30);
        row.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    let mut of = vec![Vec::new(); v];
    let mut order: Vec<u32> = Vec::with_capacity(v);
    let mut similarities = vec![0.0f32; v];
    for &word in ids {
        let word = word as usize;
        if !of[word].is_empty() {
            continue;
        }
        let u = &unit[word * d..(word + 1) * d];
        for (similarity, row) in similarities.iter_mut().zip(unit.chunks_exact(d)) {
            *similarity = row.iter().zip(u).map(|(a, b)| a * b).sum();
        }
        order.clear();
        order.extend((0..v as u32).filter(|&other| other as usize != word));
        let nearer = |a: &u32, b: &u32| similarities[*b as usize].total_cmp(&similarities[*a as usize]).then(a.cmp(b));
        let near = NEAR.min(order.len());
        if near > 0 && near < order.len() {
            order.select_nth_unstable_by(near - 1, nearer);
        }
        of[word] = order[..near].to_vec();
    }
    Ok(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline::params::Params;
    use bowline::spec::ModelSpec;
    use bowline::vocabulary::Vocabulary;
    use std::path::Path;

    /// A model that always expects the same distribution: no LSTM to speak of, a classifier bias alone.
    fn constant(bias: &[f32]) -> LoadedModel {
        let words: String = (0..bias.len()).map(|i| ["<eos>\n", "<unk>\n", "the\n", "cat\n", "dog\n"][i]).collect();
        let mut params = Params::zeros(&ModelSpec::paper(bias.len(), 2, 1, false));
        if let Some(b) = params.classifier_bias_mut() {
            b.copy_from_slice(bias);
        }
        // "cat" and "dog" point the same way, the others elsewhere.
        params.embedding_mut().copy_from_slice(&[1.0, 0.0, -1.0, 0.0, 0.0, -1.0, 0.1, 1.0, 0.2, 1.0]);
        let vocabulary = Vocabulary::from_text(Path::new("vocab.txt"), words.as_bytes()).unwrap();
        LoadedModel::network("", "al", params, vocabulary)
    }

    #[test]
    fn means_are_over_the_places_where_the_word_did_not_come() {
        let p = [0.1f32, 0.2, 0.3, 0.15, 0.25];
        let model = constant(&p.map(f32::ln));
        let ids = [0, 2, 3, 1, 4, 0];
        let near = vec![vec![], vec![0], vec![], vec![4], vec![3]];
        let found =
            tendencies(&model, &Arc::new(Team::new(1)), Isa::detect(), &ids, &["the", "<unk>", "no"], &near).unwrap();
        assert_eq!(found.positions, 5);
        assert_eq!(found.words.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>(), ["the", "<unk>"]);
        assert!((found.words[0].1 - 0.3).abs() < 1e-6 && (found.words[1].1 - 0.2).abs() < 1e-6);
        assert!((found.target - (0.3 + 0.15 + 0.2 + 0.25 + 0.1) / 5.0).abs() < 1e-6);
        assert!((found.near - (0.25 + 0.1 + 0.15) / 5.0).abs() < 1e-6);
    }

    #[test]
    fn the_nearest_point_the_same_way() {
        let model = constant(&[0.0; 5]);
        let of = neighbours(&model, &[3, 4, 3]).unwrap();
        assert_eq!((of[3].len(), of[3].contains(&4)), (4, true));
        assert!(of[0].is_empty() && of[1].is_empty());
    }
}
