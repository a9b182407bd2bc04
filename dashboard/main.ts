// Entry point of the dashboard: watches the gateway and draws its state.

import { h, render } from 'preact';
import { GatewayWatch, type View } from './gateway-watch.ts';
import { Page } from './page.ts';

const root = document.getElementById('page') as HTMLElement;
const draw = (view: View) => render(h(Page, { view }), root);
draw(new GatewayWatch(draw).view);
