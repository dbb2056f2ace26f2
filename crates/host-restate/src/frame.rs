//! The framing of the service protocol: eight bytes of header, then a message.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

/// The length of a header: type, flags and length.
const HEADER: usize = 8;

/// One message, not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The type.
    pub(crate) ty: u16,
    /// The message.
    pub(crate) body: Bytes,
}

impl Frame {
    /// A frame of a message.
    #[must_use]
    pub(crate) fn of(ty: u16, message: &impl Message) -> Self {
        Self {
            ty,
            body: message.encode_to_vec().into(),
        }
    }

    /// Writes the frame.
    pub(crate) fn write(&self, to: &mut BytesMut) {
        // A message is shorter than the largest value, which is far below 4 GiB.
        let length = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        to.reserve(HEADER + self.body.len());
        to.put_u16(self.ty);
        to.put_u16(0);
        to.put_u32(length);
        to.put_slice(&self.body);
    }

    /// Whether the frame is a command of the journal.
    #[must_use]
    pub(crate) const fn is_command(&self) -> bool {
        self.ty >= 0x0400 && self.ty < 0x8000
    }
}

/// The frames of a whole body; `None` when the body ends in the middle of one.
#[must_use]
pub(crate) fn frames(mut body: Bytes) -> Option<Vec<Frame>> {
    let mut found = Vec::new();
    while body.has_remaining() {
        if body.len() < HEADER {
            return None;
        }
        let ty = body.get_u16();
        let _flags = body.get_u16();
        let length = body.get_u32() as usize;
        if body.len() < length {
            return None;
        }
        found.push(Frame {
            ty,
            body: body.split_to(length),
        });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{SET_STATE, SetState};

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let message = SetState::new("x", b"1".to_vec());
        let frame = Frame::of(SET_STATE, &message);
        let mut body = BytesMut::new();
        frame.write(&mut body);
        frame.write(&mut body);
        assert_eq!(
            frames(body.clone().freeze()),
            Some(vec![frame.clone(), frame])
        );
        let half = body.split_to(body.len() - 1).freeze();
        assert_eq!(frames(half), None);
    }
}
