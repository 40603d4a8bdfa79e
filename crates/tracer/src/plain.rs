//! Values as maps and records have them.

/// A value out of a map, as the kernel gives it.
pub(crate) fn read<Value: Plain>(bytes: &[u8]) -> Option<Value> {
    if bytes.len() < size_of::<Value>() {
        return None;
    }
    // SAFETY: long enough, and any bytes are a value: `Plain` is only what is made of
    // numbers.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// A value as the kernel takes it.
pub(crate) fn bytes<Value: Plain>(value: &Value) -> &[u8] {
    // SAFETY: `Plain` is made of numbers without padding between them, so every byte
    // is initialized.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<Value>()) }
}

/// Structures made of numbers, without padding.
pub(crate) trait Plain: Copy {}

impl Plain for u32 {}
