/**
 * The last entries of a result, bounded in bytes and in number.
 *
 * Entries have rising sequence numbers without gaps; the oldest leave when a bound is passed, and are counted. The newest
 * entry always stays, even when it alone is larger than the bound. All operations take O(1), or O(log n) by row.
 */

export interface Entry<T> {
  readonly sequence: number;
  readonly bytes: number;
  readonly rows: number;
  readonly value: T;
}

export class Ring<T> {
  private slots: Array<Entry<T>> = [];
  /** Rows of all entries up to and with each slot, counted from the ring's begin. */
  private ends: number[] = [];
  private head = 0;
  private next = 0;
  private rowsGone = 0;
  private held = 0;
  private evictedEntries = 0;

  constructor(
    private readonly bytesMax: number,
    private readonly entriesMax: number,
  ) {}

  /** The number of entries. */
  get length(): number {
    return this.slots.length - this.head;
  }

  /** Bytes of all entries. */
  get bytes(): number {
    return this.held;
  }

  /** The number of entries that a bound has driven out. */
  get evicted(): number {
    return this.evictedEntries;
  }

  /** The number of rows of all entries. */
  get rows(): number {
    return this.length === 0 ? 0 : (this.ends[this.ends.length - 1] as number) - this.rowsGone;
  }

  /** The sequence number of the oldest entry; that of the next entry where there is none. */
  get first(): number {
    return this.next - this.length;
  }

  /** The sequence number of the newest entry; one less than `first` where there is none. */
  get last(): number {
    return this.next - 1;
  }

  push(value: T, bytes: number, rows: number): Entry<T> {
    const entry = { sequence: this.next, bytes, rows, value };
    const before = this.length === 0 ? this.rowsGone : (this.ends[this.ends.length - 1] as number);
    this.slots.push(entry);
    this.ends.push(before + rows);
    this.next += 1;
    this.held += bytes;
    while (this.length > 1 && (this.held > this.bytesMax || this.length > this.entriesMax)) this.evict();
    return entry;
  }

  /** Drives out the oldest entry, unless it is the only one. Returns the bytes that this frees. */
  evict(): number {
    if (this.length <= 1) return 0;
    const entry = this.slots[this.head] as Entry<T>;
    this.rowsGone = this.ends[this.head] as number;
    (this.slots as Array<Entry<T> | undefined>)[this.head] = undefined;
    this.head += 1;
    this.held -= entry.bytes;
    this.evictedEntries += 1;
    if (this.head > 64 && this.head * 2 > this.slots.length) {
      this.slots = this.slots.slice(this.head);
      this.ends = this.ends.slice(this.head);
      this.head = 0;
    }
    return entry.bytes;
  }

  clear(): void {
    this.slots = [];
    this.ends = [];
    this.head = 0;
    this.held = 0;
    this.rowsGone = 0;
  }

  /** The entry with this number, unless it has left or has not come. */
  get(sequence: number): Entry<T> | undefined {
    if (sequence < this.first || sequence > this.last) return undefined;
    return this.slots[this.head + sequence - this.first];
  }

  /** The entries in `[from, to]`, as far as they are held; oldest first. */
  *range(from: number, to: number): Generator<Entry<T>> {
    const end = Math.min(to, this.last);
    for (let sequence = Math.max(from, this.first); sequence <= end; sequence += 1) {
      const entry = this.get(sequence);
      if (entry !== undefined) yield entry;
    }
  }

  /** The number of rows of entries up to and with `sequence`. */
  rowsUpTo(sequence: number): number {
    if (sequence < this.first || this.length === 0) return 0;
    const slot = this.head + Math.min(sequence, this.last) - this.first;
    return (this.ends[slot] as number) - this.rowsGone;
  }

  /** The entry of row `row` (0 is the oldest row held), and the row's place in it. */
  locate(row: number): { entry: Entry<T>; row: number } | undefined {
    if (row < 0 || row >= this.rows) return undefined;
    const target = row + this.rowsGone;
    let low = this.head;
    let high = this.slots.length - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.ends[middle] as number) > target) high = middle;
      else low = middle + 1;
    }
    const entry = this.slots[low] as Entry<T>;
    return { entry, row: target - ((this.ends[low] as number) - entry.rows) };
  }
}
