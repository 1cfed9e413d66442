//! The frames of HTTP/2 (RFC 9113, section 4) and what is in their headers (RFC 7541).

use std::sync::Arc;

use loona_hpack::Decoder;

/// How a client's side begins.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame's head.
const HEAD: usize = 9;

/// The largest payload that every receiver takes.
const LARGEST: usize = 16_384;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// How long a caller of gRPC waits, which the server counts from the headers: left out, because what
/// is held comes later than they do, and in a slow network they would have come with it.
const DEADLINE: &[u8] = b"grpc-timeout";

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// One frame, or a frame of headers with those that continue it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    flags: u8,
    pub(super) stream: u32,
    pub(super) payload: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame, if it is there to its end.
    pub(super) fn first(buffer: &'a [u8]) -> Option<Self> {
        let (head, rest) = buffer.split_first_chunk::<HEAD>()?;
        let [a, b, c, kind, flags, stream @ ..] = *head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let (payload, rest) = rest.split_at_checked(length)?;
        // The highest bit is reserved.
        let stream = u32::from_be_bytes(stream) & !(1 << 31);
        Some(Self { kind, flags, stream, payload, rest })
    }

    pub(super) fn ends_stream(&self) -> bool {
        self.flags & END_STREAM != 0
    }
}

/// Where the first frame ends, with those that continue its headers: nothing may stand between.
pub(super) fn end(buffer: &[u8]) -> Option<usize> {
    let mut frame = Frame::first(buffer)?;
    while matches!(frame.kind, HEADERS | CONTINUATION) && frame.flags & END_HEADERS == 0 {
        frame = Frame::first(frame.rest)?;
    }
    Some(buffer.len() - frame.rest.len())
}

/// The headers of a whole message, the same in frames that need no table, and whether the table that
/// its sender has is still known.
pub(super) fn headers(decoder: &mut Decoder<'_>, bytes: &[u8]) -> Option<Headers> {
    let first = Frame::first(bytes)?;
    let mut payload = first.payload;
    if first.flags & PADDED != 0 {
        let (padding, rest) = payload.split_first()?;
        payload = rest.get(..rest.len().checked_sub(usize::from(*padding))?)?;
    }
    if first.flags & PRIORITY != 0 {
        payload = payload.get(5..)?;
    }
    let mut block = payload.to_vec();
    let mut rest = first.rest;
    while let Some(frame) = Frame::first(rest) {
        block.extend_from_slice(frame.payload);
        rest = frame.rest;
    }
    let fields = decoder.decode(&block).ok()?;
    // A receiver that has asked for a smaller table wants to see that its wish is known.
    let mut plain = block[..size_updates(&block)].to_vec();
    for (name, value) in fields.iter().filter(|(name, _)| name != DEADLINE) {
        // A literal that is not put in the table, with a new name.
        plain.push(0);
        for text in [name, value] {
            length(text.len(), &mut plain);
            plain.extend_from_slice(text);
        }
    }
    let mut written = Vec::with_capacity(plain.len() + HEAD);
    let chunks = plain.chunks(LARGEST).count().max(1);
    for (index, chunk) in (0..chunks).zip(plain.chunks(LARGEST).chain([&[][..]])) {
        let kind = if index == 0 { HEADERS } else { CONTINUATION };
        let ends = if index == 0 { first.flags & END_STREAM } else { 0 };
        let flags = ends | if index + 1 == chunks { END_HEADERS } else { 0 };
        frame(kind, flags, first.stream, chunk, &mut written);
    }
    Some(Headers { fields, bytes: written.into() })
}

/// What [`headers`] gives.
#[derive(Debug)]
pub(super) struct Headers {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) bytes: Arc<[u8]>,
}

impl Headers {
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(field, _)| field == name.as_bytes());
        found.map(|(_, value)| &value[..])
    }
}

/// What tells a sender that this much of its data on a stream was taken, though it was lost.
pub(super) fn credit(frame_: &Frame<'_>) -> Option<Arc<[u8]>> {
    let length = u32::try_from(frame_.payload.len()).ok().filter(|length| *length > 0)?;
    let mut bytes = Vec::new();
    let streams = if frame_.ends_stream() { &[0][..] } else { &[0, frame_.stream] };
    for stream in streams {
        frame(WINDOW_UPDATE, 0, *stream, &length.to_be_bytes(), &mut bytes);
    }
    Some(bytes.into())
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], to: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).expect("it is below the largest");
    to.extend_from_slice(&length.to_be_bytes()[1..]);
    to.extend_from_slice(&[kind, flags]);
    to.extend_from_slice(&stream.to_be_bytes());
    to.extend_from_slice(payload);
}

/// A length in the form of section 5.1, with a prefix of seven bits.
fn length(length: usize, to: &mut Vec<u8>) {
    loona_hpack::encoder::encode_integer_into(length, 7, 0, to).expect("a vector takes all");
}

/// How many bytes at the beginning of a block change the size of the table.
fn size_updates(block: &[u8]) -> usize {
    let mut at = 0;
    while let Some(first) = block.get(at).filter(|byte| *byte >> 5 == 1) {
        at += 1;
        if first & 0x1f == 0x1f {
            while block.get(at).is_some_and(|byte| byte & 0x80 != 0) {
                at += 1;
            }
            at += 1;
        }
    }
    at.min(block.len())
}
