// The page's state as a hook: read from the URL, written to it with each choice, and read again when Back or Forward is
// used or the URL is edited.

import { useEffect, useRef, useState } from 'preact/hooks';
import { type PageState, readState, writeState } from './page-state.ts';

/** `push` makes a step that Back undoes; `replace` changes the current one. */
export type Choose = (change: Partial<PageState>, step?: 'push' | 'replace') => void;

export function usePageState(): readonly [state: PageState, choose: Choose] {
  const [state, setState] = useState(() => readState(location.hash));
  const latest = useRef(state);
  latest.current = state;
  const choose = useRef<Choose>((change, step = 'push') => {
    latest.current = { ...latest.current, ...change };
    setState(latest.current);
    writeUrl(latest.current, step);
  });
  useEffect(() => {
    const read = () => setState(readState(location.hash));
    addEventListener('popstate', read);
    return () => removeEventListener('popstate', read);
  }, []);
  return [state, choose.current];
}

function writeUrl(state: PageState, step: 'push' | 'replace'): void {
  const url = `${location.pathname}${location.search}${writeState(state)}`;
  // The same choice again is no step of its own.
  if (url === `${location.pathname}${location.search}${location.hash}`) return;
  try {
    if (step === 'push') history.pushState(null, '', url);
    else history.replaceState(null, '', url);
  } catch {
    // Browsers limit how often a page may do this. The page itself has changed; the next choice writes all of it.
  }
}
