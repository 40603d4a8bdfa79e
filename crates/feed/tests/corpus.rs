//! Replays the corpus of the feed's fuzz target on the stable toolchain.

#[path = "../../../fuzz/properties/feed_decoder.rs"]
mod property;

use vmnoise_feed::FrameError;

#[test]
fn every_file_of_the_corpus() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/feed_decoder"
    );
    let mut kinds = [0; 6];
    for entry in std::fs::read_dir(folder).unwrap() {
        for one in property::check(&std::fs::read(entry.unwrap().path()).unwrap()) {
            kinds[match one {
                Ok(_) => 0,
                Err(FrameError::NoFrame) => 1,
                Err(FrameError::Checksum) => 2,
                Err(FrameError::Version(_)) => 3,
                Err(FrameError::TooLong(_)) => 4,
                Err(FrameError::Content(_)) => 5,
            }] += 1;
        }
    }
    assert!(
        kinds.iter().all(|times| *times > 0),
        "frames, no frames, damaged, other versions, too long, wrong: {kinds:?}; renew the \
         seeds as fuzz/README.md says"
    );
}
