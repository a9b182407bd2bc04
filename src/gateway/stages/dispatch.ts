// The events of one worker: each goes to the stage of its row, and so does each deadline. A fault in a stage ends the
// connection that it served, and no other.

import { FAILED, HUNG_UP, READABLE, type Reactor, type ReactorHandlers } from '../io/reactor.ts';
import {
  CLOSING,
  CONNECTING,
  DIALING,
  EXCHANGING,
  GIVING,
  GREETING,
  HUNG,
  IDENTIFYING,
  KEPT,
  LINGERING,
  LISTENER,
  OPEN,
  QUEUED,
  REQUESTING,
  TUNNEL,
} from '../shared/rows.ts';
import { acceptAll, listenerTimer } from './accept.ts';
import { DataPath, type DialHooks, type Settings, type Shared } from './data-path.ts';
import { clientWhileDialing, dialEvent, dialTimer, greetingEvent, redial } from './dial.ts';
import { clientOf, endByFault } from './end-by-fault.ts';
import { continueExchange, exchangeEvent } from './exchange.ts';
import { exchangeTimer } from './exchange-timer.ts';
import { giveTimer } from './give.ts';
import { identify, identifyTimer } from './identify.ts';
import { closeKept } from './keep-backend.ts';
import { lingerEvent, lingerTimer } from './linger.ts';
import { readRequest, requestEvent, requestTimer } from './request.ts';
import { continueTunnel, tunnelEvent, tunnelTimer } from './tunnel.ts';

/** Something to read: bytes, end of stream, or an error. */
const ARRIVED = READABLE | HUNG_UP | FAILED;

export interface DispatcherHooks extends DialHooks {
  readonly message: (message: unknown) => void;
  /** Gets exceptions of our own code, with the client's handle or -1. It must not throw. */
  readonly fault: (error: unknown, client: number) => void;
}

export class Dispatcher extends DataPath implements ReactorHandlers {
  readonly #hooks: DispatcherHooks;

  constructor(io: Reactor, shared: Shared, settings: Settings, hooks: DispatcherHooks) {
    super(io, shared, settings, hooks);
    this.#hooks = hooks;
  }

  event(handle: number, events: number): void {
    const peer = this.rows.peer[handle];
    try {
      this.#serve(handle, events);
    } catch (error) {
      this.contain(error, handle, peer);
    }
    this.#arm();
  }

  turn(): void {
    for (const handle of this.takeResumed()) {
      if ((this.rows.flags[handle] & QUEUED) === 0) continue;
      this.rows.flags[handle] &= ~QUEUED;
      const peer = this.rows.peer[handle];
      try {
        this.#resume(handle);
      } catch (error) {
        this.contain(error, handle, peer);
      }
    }
    this.wheel.advance(this.io.now(), this.#expired);
    this.#arm();
  }

  message(message: unknown): void {
    this.#hooks.message(message);
    this.#arm();
  }

  override run(handle: number, work: () => void): void {
    try {
      work();
    } catch (error) {
      this.contain(error, handle, -1);
    }
    this.#arm();
  }

  override contain(error: unknown, handle: number, peer: number): void {
    const client = clientOf(this, handle);
    try {
      this.#hooks.fault(error, client < 0 && peer >= 0 ? clientOf(this, peer) : client);
    } finally {
      endByFault(this, handle, peer);
    }
  }

  #serve(handle: number, events: number): void {
    if ((events & (HUNG_UP | FAILED)) !== 0 && this.rows.input[handle] === OPEN)
      this.rows.input[handle] = HUNG;
    switch (this.rows.state[handle]) {
      case TUNNEL:
        tunnelEvent(this, handle, events);
        break;
      case EXCHANGING:
        exchangeEvent(this, handle, events);
        break;
      case REQUESTING:
        if ((events & ARRIVED) !== 0) requestEvent(this, handle, events);
        break;
      case KEPT:
        if ((events & ARRIVED) !== 0) closeKept(this, handle);
        break;
      case LISTENER:
      case CLOSING:
        acceptAll(this, handle);
        break;
      case IDENTIFYING:
        if ((events & ARRIVED) !== 0) identify(this, handle);
        break;
      case CONNECTING:
        dialEvent(this, handle, events);
        break;
      case GREETING:
        greetingEvent(this, handle);
        break;
      case DIALING:
        if ((events & ARRIVED) !== 0) clientWhileDialing(this, handle);
        break;
      case LINGERING:
        lingerEvent(this, handle, events);
        break;
      default:
    }
  }

  #resume(handle: number): void {
    switch (this.rows.state[handle]) {
      case TUNNEL:
        continueTunnel(this, handle);
        break;
      case LISTENER:
      case CLOSING:
        acceptAll(this, handle);
        break;
      case EXCHANGING:
        continueExchange(this, handle);
        break;
      case REQUESTING:
        readRequest(this, handle);
        break;
      case DIALING:
        redial(this, handle);
        break;
      default:
    }
  }

  readonly #expired = (handle: number): void => {
    const peer = this.rows.peer[handle];
    try {
      this.#expire(handle);
    } catch (error) {
      this.contain(error, handle, peer);
    }
  };

  #expire(handle: number): void {
    switch (this.rows.state[handle]) {
      case TUNNEL:
        tunnelTimer(this, handle);
        break;
      case IDENTIFYING:
        identifyTimer(this, handle);
        break;
      case GIVING:
        giveTimer(this, handle);
        break;
      case REQUESTING:
        requestTimer(this, handle);
        break;
      case EXCHANGING:
        exchangeTimer(this, handle);
        break;
      case KEPT:
        closeKept(this, handle);
        break;
      case CONNECTING:
      case GREETING:
      case DIALING:
        dialTimer(this, handle);
        break;
      case LINGERING:
        lingerTimer(this, handle);
        break;
      case LISTENER:
      case CLOSING:
        listenerTimer(this, handle);
        break;
      default:
    }
  }

  #arm(): void {
    this.io.wakeAt(this.wheel.nextAt());
  }
}
