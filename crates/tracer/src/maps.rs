//! The maps of the programs, by name.

use std::os::fd::AsFd;

use libbpf_rs::{ErrorKind, Map, MapCore, MapFlags, Object};

use crate::mapped_array::MappedArray;
use crate::plain::{self, Plain};

pub(crate) trait Maps {
    fn map(&self, name: &str) -> Map<'_>;

    /// Maps an array into this process.
    fn mapped<Slot>(&self, array: &str) -> std::io::Result<MappedArray<Slot>> {
        let map = self.map(array);
        MappedArray::map(map.as_fd(), map.max_entries() as usize)
    }

    fn value<Value: Plain>(&self, map: &str, key: u32) -> std::io::Result<Option<Value>> {
        let bytes = self
            .map(map)
            .lookup(&key.to_ne_bytes(), MapFlags::ANY)
            .map_err(std::io::Error::other)?;
        Ok(bytes.and_then(|bytes| plain::read(&bytes)))
    }

    fn set(&self, map: &str, key: u32, value: &[u8]) -> std::io::Result<()> {
        self.map(map)
            .update(&key.to_ne_bytes(), value, MapFlags::ANY)
            .map_err(std::io::Error::other)
    }

    /// Appends a table index to a queue.
    fn push(&self, queue: &str, place: u32) -> std::io::Result<()> {
        self.map(queue)
            .update(&[], &place.to_ne_bytes(), MapFlags::ANY)
            .map_err(std::io::Error::other)
    }

    /// Removes and returns the first table index of a queue; `None` if the queue is empty.
    fn pop(&self, queue: &str) -> std::io::Result<Option<u32>> {
        let bytes = self.map(queue).lookup_and_delete(&[]);
        let bytes = bytes.map_err(std::io::Error::other)?;
        Ok(bytes.and_then(|bytes| plain::read(&bytes)))
    }

    /// Removes a key. Returns whether the map had the key.
    fn remove(&self, map: &str, key: u32) -> std::io::Result<bool> {
        match self.map(map).delete(&key.to_ne_bytes()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(std::io::Error::other(error)),
        }
    }
}

impl Maps for Object {
    /// Returns the map with this name. The kernel puts the object's name in front of `.bss`.
    fn map(&self, name: &str) -> Map<'_> {
        let is_it = |map: &Map<'_>| {
            let known = map.name().to_string_lossy();
            known == name || (name.starts_with('.') && known.ends_with(name))
        };
        let map = self.maps().find(is_it);
        map.expect("the map was there when the programs were loaded")
    }
}
