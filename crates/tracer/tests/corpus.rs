//! Replays the corpus of the decoder's fuzz target on the stable toolchain.

#[path = "../../../fuzz/properties/activity_decode.rs"]
mod property;

#[test]
fn every_input_of_the_corpus_holds_the_property() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/activity_decode"
    );
    let inputs: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(inputs.len() >= 10, "only {} inputs", inputs.len());
    for input in inputs {
        property::check(&std::fs::read(input.unwrap().path()).unwrap());
    }
}
