//! Refuses messages that are small on the wire and large in memory.
//!
//! An empty entry of a repeated field has two bytes on the wire and up to a kilobyte when it is decoded: a
//! message of 4 MiB could take more than a gigabyte. So the entries are counted before anything is decoded.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::LazyLock;

use prost::bytes::Buf;
use prost::{Message, Name};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use crate::{DESCRIPTORS, MAX_ENTRIES};

/// The text of the refusal, with the code OUT_OF_RANGE, as of a message that has too many bytes.
const REFUSED: &str = "message length too large: more than 50,000 entries in repeated fields";
/// The text of the refusal of what cannot be counted, with the code INTERNAL, as of a message that cannot be
/// decoded.
const GARBLED: &str = "failed to decode Protobuf message: the bytes are not a message of the contract \
                       (groups and messages of more than 16 levels are not taken)";

/// The codec of the generated code: Protocol Buffers with a limit of entries.
#[derive(Debug)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Name + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstCodec::<T, U>::default().decoder())
    }
}

/// Counts, then decodes.
#[derive(Debug)]
pub struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U: Message + Name + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // The buffer of a message is contiguous; another one would only be counted in part.
        check::<U>(buffer.chunk())?;
        self.0.decode(buffer)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// Refuses a message with too many entries, and what cannot be counted: the decoder takes some of it, for
/// example a message with an unknown group.
fn check<U: Name>(bytes: &[u8]) -> Result<(), Status> {
    let Some(shape) = SHAPES.get(U::full_name().as_str()) else {
        return Ok(());
    };
    let mut left = MAX_ENTRIES;
    match count(bytes, *shape, &mut left, MAX_DEPTH) {
        Ok(()) => Ok(()),
        Err(Stop::TooMany) => Err(Status::out_of_range(REFUSED)),
        Err(Stop::Garbled) => Err(Status::internal(GARBLED)),
    }
}

/// No message of the contract is nested as deep.
const MAX_DEPTH: usize = 16;

/// The fields of a message that matter here, by number.
type Shape = HashMap<u32, Field>;

/// A field with a length.
#[derive(Clone, Copy)]
struct Field {
    is_repeated: bool,
    /// Where the shape of the embedded message is.
    embedded: Option<usize>,
}

/// The shapes of all messages of the contract, and where each of them is by its name.
struct Shapes {
    shapes: Vec<Shape>,
    places: HashMap<String, usize>,
}

impl Shapes {
    fn get(&self, name: &str) -> Option<&usize> {
        self.places.get(name)
    }
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    let set = FileDescriptorSet::decode(DESCRIPTORS).expect("the build wrote the descriptors");
    let mut messages = Vec::new();
    for file in &set.file {
        for message in &file.message_type {
            collect(file.package(), message, &mut messages);
        }
    }
    let places = messages.iter().enumerate();
    let places: HashMap<_, _> = places.map(|(at, (name, _))| (name.clone(), at)).collect();
    let shapes = messages.iter().map(|(_, message)| {
        let fields = message.field.iter().filter_map(|field| {
            let is_long = matches!(field.r#type(), Type::Message | Type::String | Type::Bytes);
            let number = u32::try_from(field.number()).ok().filter(|_| is_long)?;
            let embedded = places.get(field.type_name().trim_start_matches('.'));
            let is_repeated = field.label() == Label::Repeated;
            let embedded = embedded.copied();
            Some((
                number,
                Field {
                    is_repeated,
                    embedded,
                },
            ))
        });
        fields.collect()
    });
    Shapes {
        shapes: shapes.collect(),
        places,
    }
});

fn collect<'m>(
    parent: &str,
    message: &'m DescriptorProto,
    into: &mut Vec<(String, &'m DescriptorProto)>,
) {
    let name = format!("{parent}.{}", message.name());
    for nested in &message.nested_type {
        collect(&name, nested, into);
    }
    into.push((name, message));
}

enum Stop {
    TooMany,
    /// Not a message, or one with groups (the contract has none) or of too many levels.
    Garbled,
}

/// Walks over the fields of a message and takes each entry of a repeated field from what is left.
fn count(mut bytes: &[u8], shape: usize, left: &mut usize, depth: usize) -> Result<(), Stop> {
    let depth = depth.checked_sub(1).ok_or(Stop::Garbled)?;
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = u32::try_from(key >> 3).map_err(|_| Stop::Garbled)?;
        match key & 7 {
            0 => drop(varint(&mut bytes)?),
            1 => drop(take(&mut bytes, 8)?),
            5 => drop(take(&mut bytes, 4)?),
            2 => {
                let length = varint(&mut bytes)?;
                let value = take(&mut bytes, length)?;
                let Some(field) = SHAPES.shapes[shape].get(&number) else {
                    continue;
                };
                if field.is_repeated {
                    *left = left.checked_sub(1).ok_or(Stop::TooMany)?;
                }
                if let Some(embedded) = field.embedded {
                    count(value, embedded, left, depth)?;
                }
            }
            _ => return Err(Stop::Garbled),
        }
    }
    Ok(())
}

fn take<'b>(bytes: &mut &'b [u8], length: u64) -> Result<&'b [u8], Stop> {
    let length = usize::try_from(length).map_err(|_| Stop::Garbled)?;
    let (value, rest) = bytes.split_at_checked(length).ok_or(Stop::Garbled)?;
    *bytes = rest;
    Ok(value)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Stop> {
    prost::encoding::decode_varint(bytes).map_err(|_| Stop::Garbled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;

    fn page(steps: usize) -> Vec<u8> {
        let seen = v1::Observation {
            steps: vec![v1::StepObservation::default(); steps],
            ..v1::Observation::default()
        };
        let page = v1::ListExecutionsResponse {
            observations: vec![seen],
            next_cursor: String::new(),
        };
        page.encode_to_vec()
    }

    #[test]
    fn entries_are_counted_in_all_depths() {
        // The observation itself is an entry of the page.
        let most = page(MAX_ENTRIES - 1);
        assert!(check::<v1::ListExecutionsResponse>(&most).is_ok());
        let more = page(MAX_ENTRIES);
        assert!(more.len() < 1024 * 1024);
        let refused = check::<v1::ListExecutionsResponse>(&more).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::OutOfRange);
        let item = v1::WatchExecutionsResponse {
            item: Some(v1::watch_executions_response::Item::Seen(v1::Observation {
                notes: vec![String::new(); MAX_ENTRIES + 1],
                ..v1::Observation::default()
            })),
        };
        assert!(check::<v1::WatchExecutionsResponse>(&item.encode_to_vec()).is_err());
    }

    #[test]
    fn a_body_that_looks_like_a_message_is_not_counted() {
        let page = page(MAX_ENTRIES + 1);
        let seen = v1::Observation {
            output: Some(v1::Payload {
                data: page.into(),
                content_type: String::new(),
            }),
            ..v1::Observation::default()
        };
        assert!(check::<v1::Observation>(&seen.encode_to_vec()).is_ok());
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        for garbage in [&[0x0a, 0xff][..], &[0xff; 20], &[0x0f, 1], &[0x0a, 5, 1]] {
            let refused = check::<v1::Observation>(garbage).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::Internal);
            assert!(v1::Observation::decode(garbage).is_err());
        }
    }

    #[test]
    fn an_unknown_group_does_not_hide_what_follows_it() {
        // Field 100: the begin and the end of a group, which the decoder skips.
        let group = [0xa3, 6, 0xa4, 6];
        let bytes = [&group[..], &page(MAX_ENTRIES + 1)].concat();
        let decoded = v1::ListExecutionsResponse::decode(&bytes[..]).unwrap();
        assert_eq!(decoded.observations[0].steps.len(), MAX_ENTRIES + 1);
        assert!(check::<v1::ListExecutionsResponse>(&bytes).is_err());
        // The same one level deeper.
        let inner = [&group[..], &decoded.observations[0].encode_to_vec()].concat();
        let mut outer = vec![0x0a];
        prost::encoding::encode_varint(inner.len() as u64, &mut outer);
        outer.extend(inner);
        assert!(v1::ListExecutionsResponse::decode(&outer[..]).is_ok());
        assert!(check::<v1::ListExecutionsResponse>(&outer).is_err());
    }
}
