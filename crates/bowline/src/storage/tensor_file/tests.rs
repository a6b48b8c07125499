//! One test per way in which a tensor file can be wrong, with the whole message.

use std::fs;

use super::*;
use crate::error::{Error, Result};

const WEIGHT: [f32; 6] = [1.0, -2.5, f32::MIN_POSITIVE / 2.0, -0.0, f32::MAX, 1.0 / 3.0];
const BIAS: [f32; 2] = [0.5, -0.5];

fn sample() -> TensorFileWriter<'static> {
    let mut file = TensorFileWriter::new();
    file.metadata("epoch", 3).metadata("valid", 81.25).tensor("weight", &[2, 3], &WEIGHT).tensor("bias", &[2], &BIAS);
    file
}

fn sample_bytes() -> Vec<u8> {
    sample().to_bytes("sample").unwrap()
}

/// A file from a header written by hand.
fn by_hand(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn parse(bytes: Vec<u8>) -> Result<TensorFile> {
    TensorFile::parse("F", bytes, ContentHash::Required)
}

/// The whole message, without the advice for damaged files, which is checked to be there.
#[track_caller]
fn damaged(result: Result<TensorFile>) -> String {
    let message = result.unwrap_err().to_string();
    let advice = "\n  try: the file is damaged, incomplete or of another kind: copy it again, or use another one";
    message.strip_suffix(advice).unwrap_or_else(|| panic!("other advice: {message}")).to_owned()
}

#[track_caller]
fn damaged_header(header: &str, data: usize) -> String {
    damaged(parse(by_hand(header, data)))
}

/// A tensor's name, shape and values as bits.
type Bits = (String, Vec<usize>, Vec<u32>);

/// Every tensor of a file.
fn contents(file: &TensorFile) -> Result<Vec<Bits>> {
    file.names()
        .map(|name| {
            let shape = file.shape(name).unwrap();
            let mut values = vec![0.0; shape.iter().product()];
            file.copy_to(name, &mut values)?;
            Ok((name.to_owned(), shape.to_vec(), values.iter().map(|x| x.to_bits()).collect()))
        })
        .collect()
}

#[test]
fn what_is_written_is_read_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sample.safetensors");
    let hash = sample().save(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), sample_bytes());

    for file in [TensorFile::read(&path, ContentHash::Required), parse(sample_bytes())] {
        let file = file.unwrap();
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(
            contents(&file).unwrap(),
            [("weight".to_owned(), vec![2, 3], bits(&WEIGHT)), ("bias".to_owned(), vec![2], bits(&BIAS))]
        );
        assert_eq!(file.value::<u32>("epoch").unwrap(), 3);
        assert_eq!(file.value::<f64>("valid").unwrap(), 81.25);
        assert_eq!(file.content_hash(), Some(hash.as_str()));
        let weight: (&str, &[usize]) = ("weight", &[2, 3]);
        file.expect_exactly([weight, ("bias", &[2])]).unwrap();
    }
}

/// The bytes are part of the promise: a change here makes old files unreadable or the hashes of equal runs differ.
#[test]
fn the_format_is_this_one() {
    let bytes = sample_bytes();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    assert_eq!((8 + length) % 64, 0);
    assert_eq!(bytes.len(), 8 + length + 8 * 4);
    assert_eq!(
        std::str::from_utf8(&bytes[8..8 + length]).unwrap().trim_end_matches(' '),
        "{\"__metadata__\":{\"bowline.sha256\":\"HASH\",\"epoch\":\"3\",\"valid\":\"81.25\"},\
         \"weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\
         \"bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}"
            .replace("HASH", &sha256(&hashed_text("3", WEIGHT)))
    );
    assert_eq!(bytes[8 + length..][..8], [0, 0, 128, 63, 0, 0, 32, 192]);
}

/// The definition of the content hash in the module's documentation, followed by hand.
fn hashed_text(epoch: &str, weight: [f32; 6]) -> Vec<u8> {
    let mut text = b"bowline tensor file 1\n".to_vec();
    let number = |text: &mut Vec<u8>, number: u64| text.extend(number.to_le_bytes());
    let string = |text: &mut Vec<u8>, string: &str| {
        text.extend((string.len() as u64).to_le_bytes());
        text.extend(string.as_bytes());
    };
    number(&mut text, 2);
    ["epoch", epoch, "valid", "81.25"].into_iter().for_each(|s| string(&mut text, s));
    number(&mut text, 2);
    string(&mut text, "bias");
    [1, 2].into_iter().for_each(|n| number(&mut text, n));
    BIAS.iter().for_each(|x| text.extend(x.to_le_bytes()));
    string(&mut text, "weight");
    [2, 2, 3].into_iter().for_each(|n| number(&mut text, n));
    weight.iter().for_each(|x| text.extend(x.to_le_bytes()));
    text
}

#[test]
fn no_tensors_and_empty_tensors() {
    let empty = TensorFileWriter::new().to_bytes("F").unwrap();
    assert_eq!(parse(empty).unwrap().names().count(), 0);
    let mut file = TensorFileWriter::new();
    file.tensor("none", &[0, 7], &[]).tensor("scalar", &[], &[2.0]).tensor("nothing", &[0], &[]);
    let file = parse(file.to_bytes("F").unwrap()).unwrap();
    let shapes: Vec<_> = ["none", "scalar", "nothing"].map(|name| file.shape(name).unwrap().to_vec()).into();
    assert_eq!(shapes, [vec![0, 7], vec![], vec![0]]);
    let mut scalar = [0.0];
    file.copy_to("scalar", &mut scalar).unwrap();
    assert_eq!(scalar, [2.0]);
}

/// Longer than the pieces in which values are converted.
#[test]
fn long_tensors_survive_the_pieces() {
    let values: Vec<f32> = (0..50_001).map(|i| i as f32 * 0.37).collect();
    let mut file = TensorFileWriter::new();
    file.tensor("long", &[50_001], &values);
    let file = parse(file.to_bytes("F").unwrap()).unwrap();
    let mut read = vec![0.0; values.len()];
    file.copy_to("long", &mut read).unwrap();
    assert_eq!(read, values);
}

#[test]
fn the_hash_does_not_depend_on_the_order_of_the_tensors() {
    let mut turned = TensorFileWriter::new();
    turned.tensor("bias", &[2], &BIAS).tensor("weight", &[2, 3], &WEIGHT).metadata("valid", 81.25).metadata("epoch", 3);
    let hash = |file: &TensorFileWriter| parse(file.to_bytes("F").unwrap()).unwrap().content_hash().unwrap().to_owned();
    assert_eq!(hash(&turned), hash(&sample()));
}

#[test]
fn every_truncation_is_an_error_in_a_file_and_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("F");
    let bytes = sample_bytes();
    for length in 0..bytes.len() {
        let in_memory = damaged(parse(bytes[..length].to_vec()));
        fs::write(&path, &bytes[..length]).unwrap();
        let in_file = damaged(TensorFile::read(&path, ContentHash::Required));
        assert_eq!(in_file.replace(path.to_str().unwrap(), "F"), in_memory);
    }
    let at = |length: usize| damaged(parse(bytes[..length].to_vec()));
    let header = bytes.len() - 32;
    assert_eq!(at(0), "F: header length: a tensor file begins with 8 bytes of it, this file has 0");
    assert_eq!(at(7), "F: header length: a tensor file begins with 8 bytes of it, this file has 7");
    assert_eq!(at(8), "F: header length: 312 bytes do not fit into a file of 8 bytes");
    assert_eq!(at(header - 1), "F: header length: 312 bytes do not fit into a file of 319 bytes");
    assert_eq!(at(header), "F: tensor `weight`: it ends at byte 24 of the data, which have only 0");
    assert_eq!(at(header + 24), "F: tensor `bias`: it ends at byte 32 of the data, which have only 24");
    assert_eq!(at(bytes.len() - 1), "F: tensor `bias`: it ends at byte 32 of the data, which have only 31");
}

#[test]
fn trailing_data() {
    let mut bytes = sample_bytes();
    bytes.extend([0; 5]);
    assert_eq!(damaged(parse(bytes)), "F: data: 5 bytes more than the tensors have");
}

#[test]
fn every_flipped_bit_is_an_error() {
    let bytes = sample_bytes();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn a_flipped_bit_in_the_data_and_in_the_metadata() {
    let bytes = sample_bytes();
    let hash = sha256(&hashed_text("3", WEIGHT));
    let changed = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        damaged(parse(bytes)).replace(&hash, "HASH")
    };
    let not_the_hash = |epoch, weight| {
        format!("F: content hash: the contents have {}, the file says HASH", sha256(&hashed_text(epoch, weight)))
    };
    let mut weight = WEIGHT;
    weight[0] = 1.5;
    assert_eq!(changed(&1f32.to_le_bytes(), &1.5f32.to_le_bytes()), not_the_hash("3", weight));
    assert_eq!(changed(br#""epoch":"3""#, br#""epoch":"7""#), not_the_hash("7", WEIGHT));
    assert_eq!(changed(br#"{"__metadata__""#, br#"z"#), "F: header: it does not begin with `{`");
    assert_eq!(
        changed(br#""shape":[2,3]"#, br#""shape":[2,2]"#),
        "F: tensor `weight`: the shape [2, 2] needs 16 bytes, `data_offsets` says 0 to 24"
    );
    assert_eq!(
        changed(br#""epoch":"#, br#""valid":"#),
        "F: header: it is damaged: `__metadata__`: the key `valid` is there twice at line 1 column 120"
    );
}

#[test]
fn a_missing_hash_is_the_caller_s_choice() {
    let bytes = by_hand(r#"{"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 4);
    assert_eq!(
        parse(bytes.clone()).unwrap_err().to_string(),
        "F: metadata `bowline.sha256`: the content hash is missing, so the contents cannot be checked\n  \
         try: use the file as Bowline wrote it; other tools drop the hash when they save a file"
    );
    let file = TensorFile::parse("F", bytes, ContentHash::IfPresent).unwrap();
    assert_eq!((file.shape("x"), file.content_hash()), (Some([1].as_slice()), None));
    let mut flipped = sample_bytes();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(TensorFile::parse("F", flipped, ContentHash::IfPresent).is_err());
}

#[test]
fn header_lengths() {
    let with_length = |length: u64| damaged(parse([&length.to_le_bytes()[..], b"{}"].concat()));
    assert_eq!(with_length(3), "F: header length: 3 bytes do not fit into a file of 10 bytes");
    assert_eq!(with_length(100_000_001), "F: header length: 100000001 bytes is more than the most allowed, 100000000");
    assert_eq!(
        with_length(u64::MAX),
        "F: header length: 18446744073709551615 bytes is more than the most allowed, 100000000"
    );
}

#[test]
fn headers_that_are_no_object() {
    assert_eq!(damaged_header("", 0), "F: header: it does not begin with `{`");
    assert_eq!(damaged_header("[]", 0), "F: header: it does not begin with `{`");
    assert_eq!(damaged_header(" {}", 0), "F: header: it does not begin with `{`");
    assert_eq!(damaged(parse(b"\x02\0\0\0\0\0\0\0{\xff".to_vec())), "F: header: not UTF-8 from byte 1 on");
    let start = "F: header: it is damaged: ";
    let after = |header: &str| damaged_header(header, 0).strip_prefix(start).unwrap().to_owned();
    assert_eq!(after("{"), "EOF while parsing an object at line 1 column 1");
    assert_eq!(after("{} x"), "trailing characters at line 1 column 4");
    assert_eq!(after(r#"{"x":3}"#), "`x`: invalid type: integer `3`, expected an object, {...} at line 1 column 6");
    assert_eq!(
        after(r#"{"x":["F32",[1],[0,4]]}"#),
        "`x`: invalid type: sequence, expected an object, {...} at line 1 column 5"
    );
    assert_eq!(after(r#"{"x":{},"x":{}}"#), "the key `x` is there twice at line 1 column 11");
    assert_eq!(
        after(r#"{"__metadata__":{"epoch":3}}"#),
        "`__metadata__`: `epoch`: invalid type: integer `3`, expected a string or a list of whole numbers at line 1 column 26"
    );
    assert_eq!(
        after(r#"{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#),
        "`x`: `shape`: invalid value: integer `-1`, expected u64 at line 1 column 31"
    );
    assert_eq!(
        after(r#"{"x":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}}"#),
        "`x`: `shape`: invalid type: floating point `1.8446744073709552e+19`, expected u64 at line 1 column 49"
    );
    assert_eq!(
        after(r#"{"x":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}"#),
        "`x`: `shape`: invalid type: floating point `1.0`, expected u64 at line 1 column 32"
    );
    assert_eq!(
        after("{\"\u{7}\":0}"),
        "control character (\\u0000-\\u001F) found while parsing a string at line 1 column 3"
    );
    assert_eq!(
        after(r#"{"\u0007":0}"#),
        "`\\u{7}`: invalid type: integer `0`, expected an object, {...} at line 1 column 11"
    );
}

#[test]
fn metadata_that_are_no_strings() {
    assert_eq!(damaged_header(r#"{"__metadata__":{"epoch":[3]}}"#, 0), "F: metadata `epoch`: it is not a string");
}

#[test]
fn tensors_that_are_badly_described() {
    let header = |fields: &str| damaged_header(&format!(r#"{{"x":{{{fields}}}}}"#), 8);
    assert_eq!(header(r#""shape":[2],"data_offsets":[0,8]"#), "F: tensor `x`: `dtype` is missing");
    assert_eq!(header(r#""dtype":"F32","data_offsets":[0,8]"#), "F: tensor `x`: `shape` is missing");
    assert_eq!(header(r#""dtype":"F32","shape":[2]"#), "F: tensor `x`: `data_offsets` is missing");
    assert_eq!(header(r#""dtype":[2]"#), "F: tensor `x`: `dtype` is of the wrong kind");
    assert_eq!(header(r#""shape":"[2]""#), "F: tensor `x`: `shape` is of the wrong kind");
    assert_eq!(header(r#""stride":[2]"#), "F: tensor `x`: `stride` is not a key of a tensor");

    let placed =
        |shape: &str, offsets: &str| header(&format!(r#""dtype":"F32","shape":{shape},"data_offsets":{offsets}"#));
    assert_eq!(placed("[2]", "[0,8,9]"), "F: tensor `x`: `data_offsets` has 3 numbers, not a beginning and an end");
    assert_eq!(placed("[3]", "[0,8]"), "F: tensor `x`: the shape [3] needs 12 bytes, `data_offsets` says 0 to 8");
    assert_eq!(placed("[2]", "[8,0]"), "F: tensor `x`: the shape [2] needs 8 bytes, `data_offsets` says 8 to 0");
    assert_eq!(
        placed("[4294967296,4294967296]", "[0,8]"),
        "F: tensor `x`: the shape [4294967296, 4294967296] is larger than any memory"
    );
    assert_eq!(
        placed("[3000000000000000000]", "[0,12000000000000000000]"),
        "F: tensor `x`: the shape [3000000000000000000] is larger than any memory"
    );
    assert_eq!(
        placed("[2]", "[18446744073709551607,18446744073709551615]"),
        "F: tensor `x`: it begins at byte 18446744073709551607 of the data, with a hole from byte 0 on"
    );
}

#[test]
fn other_dtypes() {
    for dtype in ["F16", "I64", "float"] {
        let bytes = by_hand(&format!(r#"{{"x":{{"dtype":"{dtype}","shape":[2],"data_offsets":[0,4]}}}}"#), 4);
        assert_eq!(
            parse(bytes).unwrap_err().to_string(),
            format!(
                "F: tensor `x`: its dtype is `{dtype}`; Bowline reads only `F32`\n  \
                 try: save the tensors as 32-bit floats, in PyTorch with `tensor.float()`"
            )
        );
    }
}

#[test]
fn tensors_that_overlap_leave_holes_or_reach_too_far() {
    let two = |first: &str, second: &str, data| {
        let tensor = |offsets| format!(r#"{{"dtype":"F32","shape":[2],"data_offsets":{offsets}}}"#);
        damaged_header(&format!(r#"{{"x":{},"y":{}}}"#, tensor(first), tensor(second)), data)
    };
    assert_eq!(
        two("[0,8]", "[4,12]", 12),
        "F: tensor `y`: it begins at byte 4 of the data, inside the tensor before it"
    );
    assert_eq!(two("[0,8]", "[0,8]", 8), "F: tensor `y`: it begins at byte 0 of the data, inside the tensor before it");
    assert_eq!(
        two("[12,20]", "[0,8]", 20),
        "F: tensor `x`: it begins at byte 12 of the data, with a hole from byte 8 on"
    );
    assert_eq!(
        two("[4,12]", "[12,20]", 20),
        "F: tensor `x`: it begins at byte 4 of the data, with a hole from byte 0 on"
    );
    assert_eq!(two("[0,8]", "[8,16]", 12), "F: tensor `y`: it ends at byte 16 of the data, which have only 12");
}

#[test]
fn tensors_that_are_not_the_expected_ones() {
    let file = parse(sample_bytes()).unwrap();
    let message = |expected: &[(&'static str, &'static [usize])]| {
        let message = file.expect_exactly(expected.iter().copied()).unwrap_err().to_string();
        let advice = "\n  try: use a file of the same model, or the sizes that belong to this file";
        message.strip_suffix(advice).unwrap().to_owned()
    };
    assert_eq!(message(&[("scale", &[2])]), "F: tensor `scale`: it is missing");
    assert_eq!(message(&[("weight", &[2, 3])]), "F: tensor `bias`: there should be no such tensor");
    assert_eq!(message(&[("weight", &[3, 2])]), "F: tensor `weight`: its shape is [2, 3], it should be [3, 2]");
}

#[test]
fn values_and_metadata_that_are_not_what_the_caller_wants() {
    let file = parse(sample_bytes()).unwrap();
    let message = |error: Error| error.to_string().split('\n').next().unwrap().to_owned();
    assert_eq!(message(file.copy_to("scale", &mut []).unwrap_err()), "F: tensor `scale`: it is missing");
    assert_eq!(
        message(file.copy_to("bias", &mut [0.0]).unwrap_err()),
        "F: tensor `bias`: it has 2 values, it should have 1"
    );
    assert_eq!(message(file.value::<u32>("step").unwrap_err()), "F: metadata `step`: it is missing");
    assert_eq!(
        message(file.value::<u32>("valid").unwrap_err()),
        "F: metadata `valid`: `81.25` is not a possible value"
    );
}

#[test]
fn values_that_are_not_finite_are_neither_read_nor_written() {
    for (value, shown) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        let mut bytes = by_hand(r#"{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#, 24);
        let at = bytes.len() - 8;
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let file = TensorFile::parse("F", bytes, ContentHash::IfPresent).unwrap();
        assert_eq!(
            file.copy_to("x", &mut [0.0; 6]).unwrap_err().to_string(),
            format!(
                "F: tensor `x`: the value at [1, 1] is {shown}\n  \
                 try: use a model from before its weights stopped being numbers"
            )
        );

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("F");
        sample().save(&path).unwrap();
        let values = [0.0, 1.0, 2.0, 3.0, value, 5.0];
        let error = TensorFileWriter::new().tensor("x", &[2, 3], &values).save(&path).unwrap_err();
        assert_eq!(
            error.to_string().replace(path.to_str().unwrap(), "F"),
            format!(
                "F: tensor `x`: the value at [1, 1] is {shown}; nothing was written\n  \
                 try: go back to weights from before they stopped being numbers, and lower the learning rate"
            )
        );
        assert_eq!(fs::read(&path).unwrap(), sample_bytes());
    }
}

#[test]
fn a_writer_refuses_what_could_not_be_read_back() {
    let message = |file: &mut TensorFileWriter| {
        let message = file.to_bytes("F").unwrap_err().to_string();
        let advice = "\n  try: report this: the program asked for a file that could not be read back";
        message.strip_suffix(advice).unwrap().to_owned()
    };
    let new = TensorFileWriter::new;
    assert_eq!(message(new().tensor("x", &[2], &[0.0])), "F: tensor `x`: 1 values do not have the shape [2]");
    assert_eq!(
        message(new().tensor("x", &[usize::MAX, 2], &[0.0])),
        "F: tensor `x`: 1 values do not have the shape [18446744073709551615, 2]"
    );
    assert_eq!(
        message(new().tensor("x", &[1], &[0.0]).tensor("x", &[1], &[0.0])),
        "F: tensor `x`: the name `x` is taken"
    );
    assert_eq!(
        message(new().tensor("__metadata__", &[1], &[0.0])),
        "F: tensor `__metadata__`: the name `__metadata__` is taken"
    );
    assert_eq!(message(new().metadata(HASH_KEY, "0")), "F: metadata `bowline.sha256`: this key is the file's own");
}

#[test]
fn a_missing_file_and_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let message = |path| {
        let error = TensorFile::read(path, ContentHash::Required).unwrap_err();
        error.to_string().replace(dir.path().to_str().unwrap(), "DIR")
    };
    assert_eq!(message(dir.path().join("F")), "DIR/F: cannot read: No such file or directory (os error 2)");
    assert_eq!(message(dir.path().to_owned()), "DIR: cannot read: Is a directory (os error 21)");
}

#[test]
fn the_previous_file_stands_in_for_a_damaged_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, previous) = (dir.path().join("F"), dir.path().join("F.previous"));
    sample().save_keeping_previous(&path, &previous).unwrap();
    sample().metadata("epoch", 4).save_keeping_previous(&path, &previous).unwrap();
    let epoch = || {
        let read = |path: &std::path::Path| TensorFile::read(path, ContentHash::Required)?.value::<u32>("epoch");
        let found = crate::storage::atomic::read_newest(&path, &previous, read).unwrap();
        (found.value, found.passed_over.is_some())
    };
    assert_eq!(epoch(), (4, false));
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 4;
    fs::write(&path, bytes).unwrap();
    assert_eq!(epoch(), (3, true));
}

/// Random changes of a valid file: always an answer, never a panic, and with a hash never a wrong answer.
#[test]
fn random_changes_never_panic_and_never_pass() {
    let good = sample_bytes();
    let expected = contents(&parse(good.clone()).unwrap()).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut read_without_hash = 0;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..1 + random(4) {
            let at = if random(2) == 0 { random(bytes.len()) } else { random(bytes.len().min(8 + 312)) };
            match random(6) {
                0 => bytes[at] ^= 1 << random(8),
                1 => bytes[at] = random(256) as u8,
                2 => bytes[at] = b"0123456789{}[]\",:eE.-"[random(21)],
                3 => bytes.truncate(at.max(320)),
                4 => bytes.insert(at, random(256) as u8),
                _ => drop(bytes.remove(at)),
            }
        }
        match parse(bytes.clone()) {
            Ok(file) => assert_eq!(contents(&file).unwrap(), expected, "{:?}", String::from_utf8_lossy(&bytes)),
            Err(error) => assert!(error.to_string().contains("\n  try: ")),
        }
        // Without its key the hash is not asked for, and the checks of the header stand alone.
        let at = good.windows(14).position(|window| window == HASH_KEY.as_bytes()).unwrap();
        if bytes.len() > at + 14 {
            bytes[at] = b'B';
            if let Ok(file) = TensorFile::parse("F", bytes, ContentHash::IfPresent) {
                read_without_hash += 1;
                let _ = contents(&file);
            }
        }
    }
    assert!(read_without_hash > 500, "{read_without_hash}: the changes should reach beyond the header");
}
