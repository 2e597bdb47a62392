//! JSON arrays that are encoded while they are sent: a list of a million allocations takes no more memory than one piece, and is
//! encoded on threads where it blocks no other request.

use std::io;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;

use super::{
    call::{Call, Reply},
    failure::Failure,
    heavy::Heavy,
    json_text::JsonText,
    query::Query,
    reply::{JSON, ShownView, check_answer, whole, with_type},
    shared_list::{ListProducer, StartedList},
};
use crate::access::CallerView;

/// Rows that are read on the request's own task: most lists are short, and a change of threads costs more than these.
pub(crate) const ROWS_HERE_MAX: usize = 64;
/// Rows that are read for one piece.
pub(crate) const ROWS_MAX: usize = 512;
/// A piece ends with the item that makes it so long: items may be large.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;
/// Bytes of an expensive response that are encoded before the first is sent, so that most failures still get an error status.
const BUFFERED_BYTES_MAX: usize = 256 << 10;

/// Where the items of an array come from.
pub(crate) trait RowSource: Send + 'static {
    /// Writes the items among the next `rows_max` rows.
    fn next(&mut self, rows_max: usize, items: &mut ArrayItems) -> Result<(), Failure>;

    /// Whether all rows have been read.
    fn is_done(&self) -> bool;

    /// Whether even the first rows take so long that they would block other requests.
    fn is_heavy(&self) -> bool;
}

/// The text of an array, as far as it is written.
#[derive(Debug)]
pub(crate) struct ArrayItems {
    text: JsonText,
    count: usize,
    query: Query,
    pretty: bool,
    end: &'static [u8],
}

impl ArrayItems {
    /// An empty array with the options of a request.
    pub fn of(call: &Call) -> Result<Self, Failure> {
        Self::between(call, b"[", b"]")
    }

    /// An object of arrays, up to the first of its arrays, which is empty yet: `begin` is the text before the items.
    pub fn of_object<T>(call: &Call, begin: &'static [u8]) -> Result<Self, Failure> {
        check_answer::<T>(&call.query);
        Self::between(call, begin, b"]}")
    }

    fn between(call: &Call, begin: &'static [u8], end: &'static [u8]) -> Result<Self, Failure> {
        let pretty = call.query.flag("pretty", false)?;
        let mut text = JsonText::default();
        text.push(begin);
        Ok(Self { text, count: 0, query: call.query.clone(), pretty, end })
    }

    /// What follows in an object of arrays: `begin` ends the array before and begins the next.
    pub fn next_member(&mut self, begin: &'static [u8]) {
        self.text.push(begin);
        self.count = 0;
    }

    /// Ends the object with this text instead of that of an array.
    pub fn end_with(&mut self, end: &'static [u8]) {
        self.end = end;
    }

    /// Appends an item.
    pub fn push<T: Serialize>(&mut self, item: &T) {
        check_answer::<Vec<T>>(&self.query);
        self.add(item);
    }

    /// Adds one to an array of an object.
    pub fn add<T: Serialize>(&mut self, item: &T) {
        if self.count > 0 {
            self.text.push(b",");
        }
        self.count += 1;
        // Only a map whose keys are no text can fail, and no wire type has one.
        if let Err(error) = self.text.add(item, self.pretty) {
            tracing::error!(%error, "could not encode an item of a list");
            self.text.push(b"null");
        }
    }

    /// Bytes that have been written and not been taken.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Ends the array, and returns the bytes that have not been taken.
    pub fn end(mut self) -> Bytes {
        self.text.push(self.end);
        self.text.into_bytes()
    }

    /// A copy without spare capacity.
    fn copy(&self) -> Self {
        let mut text = JsonText::default();
        text.push(self.text.as_bytes());
        Self { text, count: self.count, query: self.query.clone(), pretty: self.pretty, end: self.end }
    }

    /// Takes what is written so far.
    fn take(&mut self) -> Bytes {
        // One large item must not make all further pieces take as much.
        let capacity = self.text.capacity().min(2 * PIECE_BYTES_MAX);
        std::mem::replace(&mut self.text, JsonText::with_capacity(capacity)).into_bytes()
    }
}

/// Answers with an array of all items. A short one is sent whole, with its length.
pub(crate) async fn array<S: RowSource>(call: &Call, source: S) -> Reply {
    write_items(call, ArrayItems::of(call)?, source).await
}

/// The same for items that stand elsewhere than in an array by itself.
pub(crate) async fn write_items<S: RowSource>(call: &Call, mut items: ArrayItems, mut source: S) -> Reply {
    if source.is_heavy() {
        while !source.is_done() && items.bytes() < BUFFERED_BYTES_MAX {
            let next = move || (source.next(ROWS_MAX, &mut items), source, items);
            let outcome;
            (outcome, source, items) = call.api.lists.run(next).await;
            outcome?;
        }
    } else {
        source.next(ROWS_HERE_MAX, &mut items)?;
    }
    if source.is_done() {
        return Ok(whole(items.end()));
    }
    Ok(with_type(body(ArrayWriter { source, items }, call.api.lists.clone()), JSON))
}

/// The same for a list that others may read at the same time: a long one is written once for all of them. `source` shows the state of
/// `view`; `begin` makes one of another state, and then the answer says which.
pub(crate) async fn shared<S: RowSource + Clone>(
    call: &Call,
    mut source: S,
    view: CallerView,
    begin: impl Fn(CallerView) -> S,
) -> Reply {
    let contract = call.query.contract();
    if source.is_heavy() || contract.body.is_some() || contract.is_personal {
        return array(call, source).await;
    }
    let mut items = ArrayItems::of(call)?;
    source.next(ROWS_HERE_MAX, &mut items)?;
    if source.is_done() {
        return Ok(whole(items.end()));
    }
    let started: StartedList<CallerView> = (Box::new(ArrayWriter { source, items }), view);
    let begin = || {
        let view = call.view();
        let writer = ArrayWriter { source: begin(view.clone()), items: ArrayItems::of(call)? };
        Ok::<StartedList<CallerView>, Failure>((Box::new(writer), view))
    };
    let reader = call.api.shared_lists.read(call.access().rights(), &call.target(), started, begin).await?;
    let view = reader.view().cloned();
    let heavy = call.api.lists.clone();
    let body = Body::from_stream(stream::try_unfold(reader, move |mut reader| {
        let heavy = heavy.clone();
        async move {
            let piece = reader.next(&heavy).await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(piece.map(|piece| (piece, reader)))
        }
    }));
    let mut response = with_type(body, JSON);
    if let Some(view) = view {
        response.extensions_mut().insert(ShownView(view));
    }
    Ok(response)
}

struct ArrayWriter<S> {
    source: S,
    items: ArrayItems,
}

impl<S: RowSource + Clone> ListProducer for ArrayWriter<S> {
    fn next(&mut self) -> Result<(Bytes, bool), Failure> {
        self.piece()
    }

    fn fork(&self) -> Box<dyn ListProducer> {
        Box::new(Self { source: self.source.clone(), items: self.items.copy() })
    }
}

fn body<S: RowSource>(writer: ArrayWriter<S>, heavy: Heavy) -> Body {
    Body::from_stream(stream::try_unfold(Some(writer), move |writer| {
        let heavy = heavy.clone();
        async move {
            let Some(mut writer) = writer else { return Ok::<_, io::Error>(None) };
            // The status is sent already: a failure can only break the response off.
            let (piece, writer) = heavy.run(move || (writer.piece(), writer)).await;
            let (text, is_last) = piece.map_err(|failure| io::Error::other(failure.text))?;
            Ok(Some((text, (!is_last).then_some(writer))))
        }
    }))
}

impl<S: RowSource> ArrayWriter<S> {
    /// The buffered bytes and the items among the next rows, and whether these rows were the last.
    fn piece(&mut self) -> Result<(Bytes, bool), Failure> {
        // The bytes that were buffered before the response began may be a piece by themselves.
        if self.items.bytes() < PIECE_BYTES_MAX {
            self.source.next(ROWS_MAX, &mut self.items)?;
        }
        let is_last = self.source.is_done();
        if is_last {
            self.items.text.push(self.items.end);
        }
        Ok((self.items.take(), is_last))
    }
}
