/**
 * One WebSocket to the server, opened again whenever it is lost.
 *
 * Waits 0.25 s, then twice as long each time up to 5 s, each with jitter. Three failures before any `hello` mean that there is no
 * WebSocket on this way: the state is `unavailable`, and a new attempt follows each 30 s. A silent connection is asked for a sign
 * of life after 15 s and given up 10 s later. Socket, clock, timer and randomness are passed in.
 */
import { FrameReader, type Frame, type Hello, type Incoming, pingFrame } from './protocol.ts';

export interface SocketEvents {
  opened(): void;
  received(text: string): void;
  closed(): void;
}

export interface Socket {
  send(text: string): void;
  close(): void;
}

export interface World {
  open(events: SocketEvents): Socket;
  now(): number;
  random(): number;
  /** Calls `run` once after `ms`; the result cancels it. */
  after(ms: number, run: () => void): () => void;
}

export type ConnectionPhase = 'connecting' | 'live' | 'reconnecting' | 'unavailable';

export interface ConnectionState {
  phase: ConnectionPhase;
  /** When this phase began, in milliseconds since 1970 by this machine's clock. */
  since: number;
  hello: Hello | null;
  /** The server's clock minus this machine's, when `hello` came; 0 if unknown. */
  clockAheadMs: number;
}

export interface Owner {
  changed(state: ConnectionState): void;
  /** A connection is there: subscriptions are to be made. */
  ready(): void;
  /** The connection is lost: all subscriptions are void. */
  lost(): void;
  frame(frame: Incoming): void;
}

const FIRST_DELAY_MS = 250;
const DELAY_MS_MAX = 5000;
const FAILURES_MAX = 3;
const UNAVAILABLE_DELAY_MS = 30_000;
const CHECK_MS = 5000;
const SILENT_MS_MAX = 15_000;
const ANSWER_MS_MAX = 10_000;
/** Outside of the ids that subscriptions get. */
const PING_ID = 2 ** 53 - 1;

/** The wait before attempt `attempt` (0 is the first after a loss), with jitter from half of it to all of it. */
export function delayMs(attempt: number, random: number): number {
  const whole = Math.min(DELAY_MS_MAX, FIRST_DELAY_MS * 2 ** Math.min(attempt, 20));
  return whole * (0.5 + 0.5 * random);
}

export class Connection {
  state: ConnectionState;
  private socket: Socket | null = null;
  private generation = 0;
  private attempts = 0;
  private everHello = false;
  private failures = 0;
  private heardAt = 0;
  private pingedAt: number | null = null;
  private readonly reader = new FrameReader();

  constructor(
    private readonly world: World,
    private readonly owner: Owner,
  ) {
    this.state = { phase: 'connecting', since: world.now(), hello: null, clockAheadMs: 0 };
  }

  start(): void {
    this.open();
    this.check();
  }

  /** Whether frames can be sent: there is a connection, and its `hello` has come. */
  get live(): boolean {
    return this.state.phase === 'live';
  }

  send(text: string): void {
    if (this.live) this.socket?.send(text);
  }

  forget(id: number): void {
    this.reader.forget(id);
  }

  private open(): void {
    const generation = (this.generation += 1);
    const mine = () => generation === this.generation;
    this.heardAt = this.world.now();
    this.pingedAt = null;
    this.socket = this.world.open({
      opened: () => {},
      received: (text) => {
        if (mine()) this.received(text);
      },
      closed: () => {
        if (mine()) this.closed();
      },
    });
  }

  private received(text: string): void {
    this.heardAt = this.world.now();
    this.pingedAt = null;
    let frame: Frame;
    try {
      frame = this.reader.read(text);
    } catch {
      // A frame that cannot be read leaves nothing that can be trusted: begin anew.
      this.giveUp();
      return;
    }
    if ('hello' in frame) this.greeted(frame.hello);
    else if (this.live && frame.event !== 'pong') this.owner.frame(frame);
  }

  private greeted(hello: Hello): void {
    const now = this.world.now();
    const theirs = Date.parse(hello.now);
    this.everHello = true;
    this.failures = 0;
    this.attempts = 0;
    const clockAheadMs = Number.isNaN(theirs) ? 0 : theirs - now;
    this.change({ phase: 'live', since: now, hello, clockAheadMs });
    this.owner.ready();
  }

  private giveUp(): void {
    this.socket?.close();
    this.closed();
  }

  private closed(): void {
    this.generation += 1;
    this.socket = null;
    this.reader.forget();
    const wasLive = this.live;
    if (!this.everHello) this.failures += 1;
    const unavailable = !this.everHello && this.failures >= FAILURES_MAX;
    const phase = unavailable ? 'unavailable' : this.everHello ? 'reconnecting' : 'connecting';
    if (phase !== this.state.phase) this.change({ ...this.state, phase, since: this.world.now() });
    if (wasLive) this.owner.lost();
    const wait = unavailable ? UNAVAILABLE_DELAY_MS : delayMs(this.attempts, this.world.random());
    this.attempts += 1;
    this.world.after(wait, () => this.open());
  }

  private check(): void {
    const now = this.world.now();
    if (this.socket !== null) {
      if (this.pingedAt !== null && now - this.pingedAt >= ANSWER_MS_MAX) {
        this.giveUp();
      } else if (this.pingedAt === null && now - this.heardAt >= SILENT_MS_MAX) {
        this.pingedAt = now;
        // Before `hello` nothing may be sent; then only the wait counts.
        if (this.live) this.socket.send(pingFrame(PING_ID));
      }
    }
    this.world.after(CHECK_MS, () => this.check());
  }

  private change(state: ConnectionState): void {
    this.state = state;
    this.owner.changed(state);
  }
}
