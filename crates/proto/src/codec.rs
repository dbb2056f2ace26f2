//! How messages are turned into bytes and back: as tonic does, with smaller buffers, and with one copy
//! instead of a call for every byte.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::{Buf, BufMut};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A buffer to begin with. Most messages fit; a larger one makes it grow. Tonic's own 8 KiB are
/// kept by every open stream, and ten thousand watches are nothing unusual here.
const BUFFER: usize = 1024;
/// A stream hands on what it has once it has this much, as tonic does.
const YIELD_THRESHOLD: usize = 32 * 1024;

/// Protobuf with small buffers.
#[derive(Debug, Clone, Copy)]
pub struct LeanCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for LeanCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for LeanCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = LeanEncoder<T>;
    type Decoder = LeanDecoder<U>;

    fn encoder(&mut self) -> LeanEncoder<T> {
        LeanEncoder(PhantomData)
    }

    fn decoder(&mut self) -> LeanDecoder<U> {
        LeanDecoder(PhantomData)
    }
}

/// Turns messages into bytes.
#[derive(Debug, Clone, Copy)]
pub struct LeanEncoder<T>(PhantomData<T>);

impl<T: Message> Encoder for LeanEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // A vector takes single bytes without a call; the shared buffer does not. Its length is not
        // computed first: that takes nearly as long as the encoding.
        let mut bytes = Vec::with_capacity(BUFFER);
        message.encode_raw(&mut bytes);
        buffer.put_slice(&bytes);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, YIELD_THRESHOLD)
    }
}

/// Turns bytes into messages.
#[derive(Debug, Clone, Copy)]
pub struct LeanDecoder<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for LeanDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // Taken out of the shared buffer without a copy.
        let message = U::decode(buffer.copy_to_bytes(buffer.remaining()));
        // What cannot be read is INTERNAL by the rules of gRPC.
        message
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, YIELD_THRESHOLD)
    }
}
